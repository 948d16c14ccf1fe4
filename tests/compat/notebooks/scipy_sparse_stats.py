# %%
from scipy import stats, optimize, sparse, interpolate
x = np.linspace(0, 10, 50)
fit = stats.linregress(x, 2 * x + 1)
fit.slope, fit.intercept
# %%
round(fit.slope, 6), type(fit).__name__
# %%
sol = optimize.minimize(lambda v: (v[0] - 3) ** 2 + 1, x0=[0.0])
round(float(sol.x[0]), 3), sol.success
# %%
round(float(sol.fun), 3), sol["success"]
# %%
S = sparse.csr_matrix(np.eye(3))
S[0, 2] = 5
S.toarray().tolist()
# %%
(S @ S).sum(), S.nnz
# %%
f = interpolate.interp1d([0, 1, 2], [0, 1, 4])
float(f(1.5))
# %%
float(f(0.5)), stats.norm(5, 2).cdf(5)
# %%
dist = stats.norm(5, 2)
dist.ppf(0.5)
# %%
dist.mean(), dist.std()
