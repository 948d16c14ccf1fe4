# %%
a, b = {1, 2, 3}, frozenset("xy")
blob = b"\x00\xff"
buf = bytearray(b"abc")
r = range(0, 10, 3)
sl = slice(1, None, 2)
a | {9}, len(b)
# %%
a.add(10)
buf[0] = 65
bytes(buf), a, b & {"x"}, list(r), "abcdef"[sl], blob[1]
# %%
keys = {"k": 1}.keys()
d = {"p": 1, "q": 2}
view = d.items()
d["r"] = 3
len(view)
# %%
d["s"] = 4
sorted(view), ("s", 4) in view
# %%
t = ([1], {"a"})
t[0].append(2)
t
# %%
t[0].append(3)
t, type(r).__name__, r[-1], sl.step, ... is Ellipsis
