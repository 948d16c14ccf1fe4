# %%
orders = [{"id": i, "who": "ab"[i % 2], "lines": [{"sku": f"s{j}", "n": j} for j in range(i % 3)]} for i in range(8)]
len(orders)
# %%
third = orders[3]
third["lines"].append({"sku": "new", "n": 99})
orders[3]["lines"]
# %%
index = {o["id"]: o for o in orders}
index[5]["who"] = "zz"
orders[5]["who"], index[3] is third
# %%
flat = pd.json_normalize(orders, "lines", ["id", "who"])
flat.groupby("who").n.sum()
# %%
orders.sort(key=lambda o: (-len(o["lines"]), o["id"]))
[o["id"] for o in orders], index[0] is orders[-3] or True
# %%
popped = orders.pop()
popped["id"] in index, index[popped["id"]] is popped, len(orders)
# %%
popped["gone"] = True
index[popped["id"]]["gone"], sum("gone" in o for o in orders)
