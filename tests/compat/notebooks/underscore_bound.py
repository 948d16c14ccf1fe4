# %%
for _ in range(3):
    pass
_
# %%
"value"
# %%
_
# %%
first, _, last = (1, 2, 3)
first + last
# %%
_
# %%
del _
10
# %%
_ * 2
# %%
total = sum(1 for _ in range(5))
total
# %%
_
