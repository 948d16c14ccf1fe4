# %%
data = [1, 2, 3]
total = 0
# %%
for x in data + ["oops"]:
    total += x
    last = x
# %%
total, last
# %%
before = "bound"
raise RuntimeError("stop here")
after = "never"
# %%
before
# %%
after
# %%
def risky(n):
    if n > 2:
        raise KeyError(n)
    return n
log = []
for i in range(5):
    try:
        log.append(risky(i))
    except KeyError as e:
        log.append(f"bad {e}")
    finally:
        done = i
log, done
# %%
data.append(4)
1 / 0
# %%
data, total
# %%
import json
json.loads("{bad")
# %%
json.dumps({"a": data})
