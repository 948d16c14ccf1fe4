# %%
import pandas as pd
sales = pd.DataFrame({
    "region": ["n", "s", "n", "e", "s", "n"],
    "month": pd.period_range("2024-01", periods=6, freq="M"),
    "amount": [10.5, 20, None, 5, 8, 12],
    "units": [1, 2, 3, 4, 5, 6],
})
sales.dtypes.astype(str).to_dict()
# %%
sales["amount"] = sales["amount"].fillna(0)
sales["price"] = sales["amount"] / sales["units"]
sales
# %%
by_region = sales.groupby("region")["amount"].agg(["sum", "mean", "count"])
by_region
# %%
wide = sales.pivot_table(index="region", columns=sales["month"].dt.quarter, values="units", aggfunc="sum", fill_value=0)
wide
# %%
top = sales.nlargest(2, "amount")
sales.loc[top.index, "flag"] = True
sales["flag"].isna().sum(), wide.loc["n"].tolist()
# %%
merged = sales.merge(by_region.reset_index(), on="region").sort_values(["region", "month"])
merged[["region", "units", "sum"]].reset_index(drop=True)
# %%
merged.query("units > @limit") if "limit" in globals() else len(merged)
# %%
limit = 3
merged.query("units > @limit").shape, sales.month.iloc[-1] + 1
