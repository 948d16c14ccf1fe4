# %%
class Registry:
    def __init__(self): self._by = {}
    def register(self, name=None):
        def deco(fn):
            self._by[name or fn.__name__] = fn
            return fn
        return deco
    def __call__(self, name, *a): return self._by[name](*a)
reg = Registry()
@reg.register()
def double(x): return 2 * x
@reg.register("neg")
def negate(x): return -x
reg("double", 4), reg("neg", 4)
# %%
reg("double", 5), sorted(reg._by), reg._by["double"] is double
# %%
@reg.register()
def twice(x): return reg("double", reg("double", x))
reg("twice", 3)
# %%
def double(x): return 200 * x
reg("twice", 3), double(1)
# %%
bound = reg.__call__
m = reg.register
bound("neg", 1), reg("twice", 1)
