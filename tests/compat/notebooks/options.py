# %%
import pandas as pd
pd.set_option("display.max_rows", 6)
pd.set_option("display.precision", 2)
np.set_printoptions(precision=3, suppress=True)
df = pd.DataFrame({"a": np.arange(20) / 3})
print(df)
# %%
print(df.describe())
print(np.array([1.23456, 1e-9]))
# %%
pd.options.display.float_format = "{:,.1f}".format
print(df.head(3))
# %%
print(df.tail(2))
pd.get_option("display.max_rows")
# %%
pd.reset_option("display.float_format")
with pd.option_context("display.precision", 5):
    print(df.head(1))
print(df.iloc[1:2])
# %%
import decimal
decimal.getcontext().prec = 6
with np.errstate(divide="ignore"):
    np.log(0.0)
np.seterr(divide="ignore")
1 / decimal.Decimal(7)
# %%
decimal.Decimal(2).sqrt(), np.geterr()["divide"], pd.get_option("display.precision")
