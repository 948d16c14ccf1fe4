# %%
import numpy as np
base = np.arange(12.0)
m = base.reshape(3, 4)
row, col = m[1], m[:, 2]
rev = base[::-1]
row[:] = 0
base
# %%
col += 100
base[2], m[0, 2], rev[-3]
# %%
mask = m > 50
m[mask] = -1
base.sum(), np.shares_memory(base, m), np.shares_memory(col, row)
# %%
c = m.copy()
c[0, 0] = 42
base[0], c.flags.owndata, m.base is base
# %%
big = np.zeros((300, 300))
corner = big[:2, :2]
big[0, 0] = 3
corner
# %%
corner[1, 1] = 8
big[1, 1], big.sum()
# %%
structured = np.array([("a", 1, 2.0), ("b", 2, 3.5)], dtype=[("n", "U3"), ("k", "i4"), ("v", "f8")])
structured["v"] *= 2
structured
# %%
structured["v"].mean(), structured[structured["k"] > 1]["n"].tolist(), structured.dtype.names
