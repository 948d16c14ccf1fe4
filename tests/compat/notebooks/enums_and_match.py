# %%
from enum import Enum, IntEnum, Flag, auto, StrEnum
class Color(Enum):
    RED = 1
    GREEN = 2
    @property
    def pretty(self):
        return self.name.title()
class Level(IntEnum):
    LOW = 1
    HIGH = 10
class Perm(Flag):
    R = auto()
    W = auto()
class Kind(StrEnum):
    A = "a"
    B = "b"
c = Color.RED
levels = [Level.HIGH, Level.LOW]
rw = Perm.R | Perm.W
# %%
c is Color.RED, c.pretty, sorted(levels)[0].name, Perm.W in rw, Kind("b") is Kind.B
# %%
def describe(x):
    match x:
        case Color.RED:
            return "red!"
        case Level() if x > 5:
            return f"high {int(x)}"
        case {"kind": Kind.A, **rest}:
            return f"a with {sorted(rest)}"
        case [first, *others]:
            return f"{first} and {len(others)}"
        case _:
            return "other"
[describe(v) for v in (c, Level.HIGH, {"kind": Kind.A, "z": 1}, [1, 2, 3], None)]
# %%
table = {Color.RED: 5, Color.GREEN: 7}
table[c] += 1
table[Color.RED], list(Color), str(Kind.A)
# %%
describe(c), Color["GREEN"].value, {m.name: m.value for m in Level}, rw
