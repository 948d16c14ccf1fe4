# %%
rng = np.random.default_rng(0)
big = pd.DataFrame(rng.normal(size=(60_000, 4)), columns=list("abcd"))
big["key"] = rng.integers(0, 5, len(big))
big.shape
# %%
big.loc[0, "a"] = 1000.0
round(big.a.max(), 3)
# %%
top = big.nlargest(3, "a")
big.loc[1, "a"] = 2000.0
top.index[0], round(top.a.iloc[0], 2), big.a.idxmax()
# %%
summary = big.groupby("key").a.mean().round(4)
summary
# %%
arr = big[["a", "b"]].to_numpy()
arr[0, 0] = -1
big.loc[0, "a"], arr[0, 0]
# %%
other = big
other.drop(columns=["d"], inplace=True)
big.columns.tolist(), other is big
# %%
big.key.value_counts().sort_index().tolist(), arr.shape
