# %%
from abc import ABC, abstractmethod
class Shape(ABC):
    registry = {}
    def __init_subclass__(cls, **kw):
        super().__init_subclass__(**kw)
        Shape.registry[cls.__name__] = cls
    @abstractmethod
    def area(self): ...
    def __lt__(self, other):
        return self.area() < other.area()
# %%
class Square(Shape):
    def __init__(self, a):
        self.a = a
    def area(self):
        return self.a ** 2
class Disc(Shape):
    def __init__(self, r):
        self.r = r
    def area(self):
        return round(3.14159 * self.r ** 2, 3)
shapes = [Disc(2), Square(3)]
sorted(Shape.registry)
# %%
[type(s).__name__ for s in sorted(shapes)]
# %%
Shape()
# %%
made = [Shape.registry[n](1).area() for n in sorted(Shape.registry)]
made
# %%
class Mixin:
    def double(self):
        return 2 * self.area()
class Big(Mixin, Square):
    pass
Big(2).double(), [c.__name__ for c in Big.mro()][:3], len(Shape.registry)
# %%
Shape.registry["Big"](3).double(), isinstance(shapes[0], Shape)
