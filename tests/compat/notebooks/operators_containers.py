# %%
class Vec:
    __slots__ = ("x", "y")
    def __init__(self, x, y): self.x, self.y = x, y
    def __add__(self, o): return Vec(self.x + o.x, self.y + o.y)
    def __mul__(self, k): return Vec(self.x * k, self.y * k)
    __rmul__ = __mul__
    def __eq__(self, o): return isinstance(o, Vec) and (self.x, self.y) == (o.x, o.y)
    def __hash__(self): return hash((self.x, self.y))
    def __repr__(self): return f"Vec({self.x}, {self.y})"
    def __getitem__(self, i): return (self.x, self.y)[i]
    def __bool__(self): return bool(self.x or self.y)
v = Vec(1, 2)
v + 3 * v
# %%
cache = {v: "v", Vec(0, 0): "o"}
cache[Vec(1, 2)], bool(Vec(0, 0)), v[1], [*v]
# %%
class Frozen(dict):
    def __setitem__(self, k, x):
        raise TypeError("frozen")
    def __missing__(self, k):
        return f"<{k}>"
fd = Frozen(a=1)
fd["b"], fd["a"]
# %%
fd["b"] = 2
# %%
fd["zz"], dict(fd), isinstance(fd, dict), type(fd).__name__
# %%
class MyList(list):
    label = "L"
    def total(self): return sum(self)
ml = MyList([1, 2, 3])
ml.label = "own"
ml.append(4)
ml.total(), ml.label
# %%
ml.append(5)
ml.total(), ml.label, ml[1:], cache[v], len(cache)
