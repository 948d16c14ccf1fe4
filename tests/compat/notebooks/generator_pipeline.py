# %%
def read(rows):
    for row in rows:
        yield dict(zip("ab", row))
def keep(rows, key, low):
    return (row for row in rows if row[key] >= low)
rows = [(i, i * i) for i in range(6)]
list(keep(read(rows), "a", 3))
# %%
from itertools import chain, islice, groupby, accumulate, product
found = list(islice(chain(read(rows), read(rows[::-1])), 4, 8))
found
# %%
running = list(accumulate(r["b"] for r in read(rows)))
running[-1]
# %%
by = {k: list(g) for k, g in groupby(sorted(rows, key=lambda r: r[0] % 2), key=lambda r: r[0] % 2)}
by
# %%
def squares():
    n = 0
    while True:
        yield n * n
        n += 1
list(islice(squares(), 5)) + running[:2]
# %%
sum(r["a"] for r in keep(read(rows), "b", 4)), len(by[1]), sorted(by)
