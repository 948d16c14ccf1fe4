# %%
c = pd.Categorical(["lo", "hi", "lo", None], categories=["lo", "mid", "hi"], ordered=True)
s = pd.Series(c, name="lvl")
s.cat.codes.tolist(), s.min()
# %%
s.value_counts(sort=False)
# %%
s = s.cat.add_categories("max")
(s < "hi").tolist(), list(s.cat.categories), s.cat.ordered
# %%
p = pd.Series(pd.period_range("2023Q1", periods=4, freq="Q"))
iv = pd.cut(pd.Series([1, 5, 9]), [0, 3, 6, 10])
p.dt.year.tolist(), iv.tolist()
# %%
iv.cat.categories[0].right, (p + 1).astype(str).tolist(), iv.dtype == "category"
# %%
ages = pd.Series([5, 20, 70])
bins = pd.cut(ages, [0, 18, 65, 120], labels=["kid", "adult", "old"])
bins.tolist()
# %%
bins.cat.codes.tolist(), pd.crosstab(bins, ages > 10)
