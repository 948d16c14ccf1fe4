# %%
df = pd.DataFrame({"a": [1, 2, 3], "b": [[1], [2], [3]]})
col = df["b"]
inner = df.loc[0, "b"]
inner.append(9)
df
# %%
df.loc[0, "b"] is inner, col.iloc[0] is inner
# %%
part = df[df.a > 1]
part = part.assign(c=lambda d: d.a * 10)
df.columns.tolist(), part.columns.tolist()
# %%
same = df
same["z"] = 0
"z" in df.columns, same is df
# %%
frames = {"x": df, "y": part}
frames["x"].loc[1, "a"] = 77
df.a.tolist(), same.a.tolist(), part.a.tolist()
# %%
view = df.a.values
s = df["a"]
s.iloc[0] = -5
df.a.tolist(), s.tolist()
# %%
s.name, s.index.equals(df.index), frames["x"] is df, col.iloc[0] is df.b[0]
