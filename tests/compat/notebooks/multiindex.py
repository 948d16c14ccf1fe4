# %%
mi = pd.MultiIndex.from_product([["a", "b"], [1, 2]], names=["k", "n"])
s = pd.Series([10, 20, 30, 40], index=mi)
s
# %%
u = s.unstack()
u.loc["b", 2], u.columns.name
# %%
df = pd.DataFrame(np.arange(8).reshape(4, 2), index=mi, columns=pd.MultiIndex.from_tuples([("x", "u"), ("x", "v")]))
df.xs(1, level="n")
# %%
df.stack(future_stack=True).shape, df.sort_index(ascending=False).index[0]
# %%
s.loc["a"].tolist(), s.index.levels[1].tolist(), s.groupby(level="k").sum()
# %%
t = df.reset_index()
t.columns.tolist(), mi.get_level_values("k").tolist()
# %%
t2 = df.swaplevel().sort_index()
t2.index.names, t2.loc[2].shape
