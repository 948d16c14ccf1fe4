# %%
raw = [
    {"id": "1", "Name ": " Ann ", "joined": "2024-01-05", "spend": "1,200.50"},
    {"id": "2", "Name ": "bob", "joined": "05/02/2024", "spend": ""},
    {"id": "2", "Name ": "bob", "joined": "05/02/2024", "spend": ""},
    {"id": "3", "Name ": None, "joined": "bad", "spend": "7"},
]
df = pd.DataFrame(raw)
df.columns = df.columns.str.strip().str.lower()
df.shape
# %%
df = df.drop_duplicates().reset_index(drop=True)
df["name"] = df["name"].str.strip().str.title()
df
# %%
df["spend"] = pd.to_numeric(df["spend"].str.replace(",", ""), errors="coerce")
df["joined"] = pd.to_datetime(df["joined"], errors="coerce", format="mixed", dayfirst=False)
df.dtypes.astype(str).tolist()
# %%
report = df.isna().sum()
report[report > 0]
# %%
df = df.fillna({"name": "Unknown", "spend": df["spend"].median()})
df
# %%
checks = {"ids unique": df.id.is_unique, "no null spend": df.spend.notna().all()}
all(checks.values()), checks
