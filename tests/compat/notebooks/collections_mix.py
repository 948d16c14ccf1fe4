# %%
from collections import defaultdict, deque, OrderedDict, ChainMap
groups = defaultdict(list)
for k, v in [("a", 1), ("b", 2), ("a", 3)]:
    groups[k].append(v)
q = deque(range(5), maxlen=5)
od = OrderedDict(z=1, a=2)
cm = ChainMap({"x": 1}, {"x": 2, "y": 3})
q.append(99)
groups
# %%
groups["new"].append(7)
q.append(100)
list(q), dict(groups), q.maxlen
# %%
od.move_to_end("z")
cm["y"] = 5
list(od), dict(cm), cm.maps[0]
# %%
tree = lambda: defaultdict(tree)
t = tree()
t["a"]["b"]["c"] = 1
counts = defaultdict(lambda: 10)
counts["q"] += 1
counts
# %%
t["x"]["y"]["z"] = 2
counts["r"] += 1
sorted(t), t["a"]["b"]["c"], counts["q"], counts["r"], counts["zz"]
# %%
nested = defaultdict(lambda: defaultdict(int))
nested["p"]["q"] += 5
q.rotate(2)
nested["p"]["q"], nested["n"]["o"], list(q)
# %%
nested["p"]["q"] += 1
nested["p"]["q"], type(nested["fresh"]).__name__, od.popitem()
