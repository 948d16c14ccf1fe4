# %%
a0, a1, a2, a3, a4, a5, a6, a7, a8, a9 = range(10)
b0, b1, b2, b3, b4, b5, b6, b7, b8, b9 = ([i] for i in range(10))
c0, c1, c2, c3, c4, c5, c6, c7, c8, c9 = map(str, range(10))
d0, d1, d2, d3, d4, d5, d6, d7, d8, d9 = ({i: i} for i in range(10))
e0, e1, e2, e3, e4, e5, e6, e7, e8, e9 = (i / 2 for i in range(10))
f0, f1, f2, f3, f4, f5, f6, f7, f8, f9 = ((i,) for i in range(10))
g0, g1, g2, g3, g4, g5, g6, g7, g8, g9 = ({i} for i in range(10))
h0, h1, h2, h3, h4, h5, h6, h7, h8, h9 = ("h" * i for i in range(10))
# %%
a9, b9, c9, d9, e9, f9, g9, h9
# %%
sum([a0, a1, a2, a3]), b0 + b1, c5 + c6, d7, e3, f4, g2, h1
# %%
b3.append("x"); g3.add("y")
# %%
b3, len(g3), h9 + h8
