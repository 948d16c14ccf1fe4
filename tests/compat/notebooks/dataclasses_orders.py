# %%
from dataclasses import dataclass, field, asdict, replace
@dataclass(order=True)
class Item:
    price: float
    name: str = field(compare=False)
    tags: list = field(default_factory=list, compare=False)
    @property
    def gross(self):
        return round(self.price * 1.2, 2)
@dataclass
class Order:
    items: list[Item] = field(default_factory=list)
    def add(self, *args, **kwargs):
        self.items.append(Item(*args, **kwargs))
        return self
    def total(self):
        return sum(i.price for i in self.items)
order = Order().add(10.0, "pen").add(5.5, "ink", tags=["blue"])
order.total()
# %%
first = order.items[0]
first.price = 12.0
order.total(), first.gross
# %%
cheap = min(order.items)
cheap is order.items[1], asdict(cheap)
# %%
dearer = replace(cheap, price=50.0)
dearer.tags.append("shared")
cheap.tags, sorted(order.items + [dearer])[-1].name
# %%
print(order)
isinstance(first, Item), type(first).__name__, first == Item(12.0, "other")
# %%
@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0
    def __add__(self, other):
        return Point(self.x + other.x, self.y + other.y)
p = Point(1, 2)
seen = {p: "a", Point(3): "b"}
p + Point(1)
# %%
seen[Point(1, 2)], seen[Point(3, 0)], p in seen, hash(p) == hash(Point(1, 2))
