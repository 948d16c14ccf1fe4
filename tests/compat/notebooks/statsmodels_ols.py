# %%
import statsmodels.api as sm
import statsmodels.formula.api as smf
df = pd.DataFrame({"x": np.arange(20.0), "g": list("ab") * 10})
df["y"] = 3 * df.x + 2 + (df.g == "b") * 5
res = smf.ols("y ~ x + C(g)", df).fit()
res.params.round(3)
# %%
round(float(res.rsquared), 4), res.nobs
# %%
res.predict(pd.DataFrame({"x": [100.0], "g": ["b"]})).round(2).tolist()
# %%
X = sm.add_constant(df[["x"]])
m2 = sm.OLS(df.y, X).fit()
m2.params.round(2).tolist(), m2.df_resid
# %%
m2.pvalues.shape, m2.resid.abs().max().round(2), res.params.index.tolist()
