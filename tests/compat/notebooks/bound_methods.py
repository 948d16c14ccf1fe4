# %%
words = []
add = words.append
upper = "abc".upper
class K:
    def __init__(self): self.n = 0
    def inc(self):
        self.n += 1
        return self.n
k = K()
inc = k.inc
add("x"); inc()
# %%
add("y"); inc()
words, k.n, upper()
# %%
d = {}
get, setdefault = d.get, d.setdefault
setdefault("a", []).append(1)
get("a")
# %%
setdefault("a", []).append(2)
d, get("zz", "none"), inc() == k.n
# %%
actions = [words.clear, k.inc]
actions[1]()
# %%
actions[0]()
words, k.n, inc == k.inc
