# %%
def make(kind):
    class Thing:
        label = kind
        def __init__(self, v): self.v = v
        def show(self): return f"{self.label}:{self.v}:{kind}"
    return Thing
A, B = make("a"), make("b")
things = [A(1), B(2)]
[t.show() for t in things]
# %%
[t.show() for t in things], type(things[0]) is A, A is not B
# %%
def outer():
    x = 0
    def inc():
        nonlocal x
        x += 1
        return x
    def reset():
        nonlocal x
        x = 0
    return {"inc": inc, "reset": reset}
ctl = outer()
ctl["inc"](), ctl["inc"]()
# %%
ctl["inc"](), ctl["reset"](), ctl["inc"]()
# %%
fact = lambda n: 1 if n < 2 else n * fact(n - 1)
Y = type("Y", (), {"z": 5, "get": lambda self: self.z})
fact(6), Y().get()
# %%
Y.z = 6
yy = Y()
fact(7), yy.get()
# %%
yy.get(), ctl["inc"](), B.label
