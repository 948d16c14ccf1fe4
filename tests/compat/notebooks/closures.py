# %%
def counter(start=0):
    n = start
    def step(by=1):
        nonlocal n
        n += by
        return n
    def value():
        return n
    return step, value
step, value = counter(10)
step()
# %%
step(5), value()
# %%
makers = [lambda x, k=k: x * k for k in range(4)]
late = [lambda: k for k in range(3)]
[f(10) for f in makers], [f() for f in late]
# %%
step2 = step
step2()
[value(), step is step2]
# %%
def accumulate(total=[]):
    total.append(len(total))
    return total
accumulate(); accumulate()
# %%
accumulate(), [f(2) for f in makers], value()
# %%
len(accumulate()), [f() for f in late]
