# %%
it = iter([1, 2, 3, 4])
next(it)
# %%
next(it), next(it)
# %%
pairs = enumerate("abc", 1)
zipped = zip([1, 2, 3], "xyz")
mapped = map(str.upper, ["q", "r", "s"])
rng = iter(range(3))
next(pairs), next(zipped), next(mapped), next(rng)
# %%
next(pairs), next(zipped), next(mapped), next(rng)
# %%
import itertools
ids = itertools.count(100, 5)
next(ids), next(ids)
# %%
next(ids), list(it), next(it, "end")
# %%
rev = reversed([1, 2, 3])
next(rev)
# %%
list(rev), list(pairs), list(zipped)
