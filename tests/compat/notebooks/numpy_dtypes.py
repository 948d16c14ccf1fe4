# %%
x = np.array([1, 2, 3], dtype=np.int8)
y = np.float32(1.5)
z = np.array(["2024-01-31", "NaT"], dtype="datetime64[D]")
s = np.array(["aa", "b"], dtype="U5")
o = np.array([{"k": 1}, None, [1]], dtype=object)
cplx = np.array([1 + 2j])
x.dtype, type(y).__name__
# %%
(x + np.int8(100)).tolist(), y.dtype, z[0] + np.timedelta64(1, "D"), s.itemsize
# %%
o[0]["k"] += 1
o.tolist(), np.isnat(z).tolist(), cplx.imag.tolist()
# %%
ma = np.ma.masked_array([1.0, 2.0, 3.0], mask=[0, 1, 0], fill_value=-9)
ma.mean(), ma.filled()
# %%
ma[0] = np.ma.masked
ma.count(), ma.tolist(), ma.fill_value
# %%
f = np.asfortranarray(np.arange(6).reshape(2, 3))
f.flags.f_contiguous, f.strides == np.arange(6).reshape(2, 3).T.copy().T.strides
# %%
f.flags.f_contiguous, f.T.flags.c_contiguous, o[2], ma.sum()
