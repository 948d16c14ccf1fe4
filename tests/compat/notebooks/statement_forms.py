# %%
if (n := 10) > 5:
    big = True
while n > 7:
    n -= 1
else:
    ended = "yes"
n, ended
# %%
x: int = 5
y: list[int]
z = [i for i in range(3) if i % 2 == 0]
*head, tail = "abc"
head, tail, z
# %%
x += 1
z *= 2
q = r = []
q.append(1)
r, x, z
# %%
q.append(2)
r is q, r
# %%
f"{x=} {n:>4} {'a' if big else 'b'} {z!r}"
# %%
def gen_args(*args, key=None, **kw):
    return args, key, sorted(kw.items())
gen_args(*z, key=1, **{"w": 2})
# %%
squares = {k: v for k, v in zip("ab", map(lambda t: t * t, (2, 3)))}
print(*squares, sep="-", end="!\n")
squares
# %%
lambda_table = {"+": lambda a, b: a + b, "-": lambda a, b: a - b}
[lambda_table[o](5, 3) for o in "+-"], (lambda *a: len(a))(*z)
