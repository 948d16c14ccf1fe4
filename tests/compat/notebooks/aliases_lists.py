# %%
a = [1, 2]
b = a
nested = {"rows": a, "twice": [a, a]}
b.append(3)
a, nested
# %%
b is a, nested["rows"] is a, nested["twice"][0] is nested["twice"][1]
# %%
nested["twice"][0].append(99)
a
# %%
import copy
deep = copy.deepcopy(nested)
shallow = copy.copy(nested)
deep["rows"].append("deep")
a[-1], deep["twice"][0][-1], shallow["rows"] is a
# %%
grid = [[0] * 3] * 2
grid[0][0] = 5
grid
# %%
grid[1][1] = 7
grid, grid[0] is grid[1]
# %%
loop = [1]
loop.append(loop)
t = (a, loop)
len(loop), loop[1] is loop
# %%
t[0] is a, t[1][1][1] is loop, deep["rows"] is deep["twice"][1]
