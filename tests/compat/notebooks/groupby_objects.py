# %%
df = pd.DataFrame({"k": list("abcab"), "v": [1, 2, 3, 4, 5], "w": [1.0, 0, 2, 5, 3]})
g = df.groupby("k")
g.v.sum()
# %%
g.get_group("a"), g.ngroups
# %%
gw = g["w"]
gw.transform("mean").tolist(), gw.rank().tolist()
# %%
roll = df.v.rolling(2)
exp = df.v.expanding()
roll.sum().tolist()
# %%
roll.mean().tolist(), exp.max().tolist()
# %%
[(name, len(part)) for name, part in g], g.agg(total=("v", "sum"), top=("w", "max"))
# %%
res = df.set_index(pd.date_range("2024-01-01", periods=5, freq="12h")).resample("D")
res.v.sum()
# %%
res["w"].max().tolist(), g.cumcount().tolist()
