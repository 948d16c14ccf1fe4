# %%
df = pd.DataFrame({
    "i": pd.array([1, None, 3], dtype="Int64"),
    "b": pd.array([True, None, False], dtype="boolean"),
    "s": pd.array(["x", None, "z"], dtype="string"),
    "f": pd.array([1.5, None, 2.5], dtype="Float64"),
})
df.dtypes.astype(str).tolist()
# %%
df.i.sum(), df.b.any(), df.s.str.upper().tolist()
# %%
conv = df.convert_dtypes()
na = pd.NA
(na is pd.NA), df.i[1] is pd.NA, conv.dtypes.equals(df.dtypes)
# %%
df.loc[1] = [7, True, "new", 0.25]
df
# %%
sp = pd.Series(pd.arrays.SparseArray([0, 0, 1, 0]))
arrow = pd.Series(["a", "b", None], dtype="string[pyarrow]")
sp.sparse.density, arrow.isna().sum()
# %%
sp.dtype, arrow.dtype, (df.i + 1).tolist()
