# %%
import sqlite3
con = sqlite3.connect(":memory:")
con.execute("create table t (a int, b text)")
con.executemany("insert into t values (?, ?)", [(1, "x"), (2, "y")])
rows = con.execute("select * from t order by a").fetchall()
rows
# %%
frame = pd.DataFrame(rows, columns=["a", "b"])
frame.a.sum()
# %%
frame.to_dict("list")
