# %%
class Positive:
    def __set_name__(self, owner, name):
        self.name = "_" + name
    def __get__(self, obj, kind=None):
        return self if obj is None else getattr(obj, self.name, 0)
    def __set__(self, obj, value):
        if value <= 0:
            raise ValueError(self.name)
        setattr(obj, self.name, value)
class Box:
    width = Positive()
    height = Positive()
    def __init__(self, w, h):
        self.width, self.height = w, h
    def __call__(self, k):
        return self.width * self.height * k
    def __iter__(self):
        yield self.width
        yield self.height
    def __len__(self):
        return 2
    def __contains__(self, v):
        return v in list(self)
box = Box(2, 3)
box(10)
# %%
box.width = 7
list(box), len(box), 7 in box
# %%
try:
    box.height = 0
except ValueError as error:
    problem = str(error)
problem, box.height
# %%
w, h = box
w * h, [*map(box, range(3))]
