# %%
x, y, z = 1, [1], {"a": 1}
def f(): return y
# %%
del x
x
# %%
"x" in globals(), sorted(n for n in ("x", "y", "z") if n in globals())
# %%
old = y
y = "new"
f(), old
# %%
del y
f()
# %%
y = 3
f()
# %%
def f(): return "other"
g = f
f(), g is f
# %%
class A:
    v = 1
a = A()
class A:
    v = 2
a.v, A.v, isinstance(a, A)
# %%
a.v, A().v, type(a) is A, type(a).__name__
# %%
list = [1, 2]
len(list)
# %%
del list
list("ab")
