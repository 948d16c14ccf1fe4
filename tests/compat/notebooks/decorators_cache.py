# %%
import functools, time
calls = []
def logged(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        calls.append((fn.__name__, args))
        return fn(*args, **kwargs)
    wrapper.calls = 0
    return wrapper
@logged
def add(a, b=1):
    """Add them."""
    return a + b
add(1), add(2, b=5)
# %%
add(3)
len(calls), add.__name__, add.__doc__
# %%
@functools.lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
fib(60)
# %%
fib(70), fib(10)
# %%
def memo(fn):
    store = {}
    def inner(x):
        if x not in store:
            store[x] = fn(x)
        return store[x]
    inner.store = store
    return inner
seen = []
@memo
def slow(x):
    seen.append(x)
    return x * 2
slow(1), slow(1), slow(2)
# %%
slow(1), slow(3), seen, sorted(slow.store)
# %%
def repeat(times):
    def deco(fn):
        def run(*a):
            return [fn(*a) for _ in range(times)]
        return run
    return deco
@repeat(3)
@memo
def noisy(x):
    seen.append(-x)
    return x
noisy(4), seen
# %%
noisy(4), seen[-1], len(calls)
