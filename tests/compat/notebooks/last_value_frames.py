# %%
df = pd.DataFrame({"k": list("abab"), "v": [1, 2, 3, 4]})
df.groupby("k").v.sum()
# %%
_.sort_values(ascending=False)
# %%
_.index.tolist()
# %%
df
# %%
df.assign(w=1)
# %%
len(_), list(_)
# %%
df[df.v > 1]
# %%
_.v.mean()
# %%
{"a": 1, "b": [1, 2]}
# %%
_["b"][0], sorted(_)
# %%
"text".upper()
# %%
_.lower()
