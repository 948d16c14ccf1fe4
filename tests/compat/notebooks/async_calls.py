# %%
import asyncio
async def fetch(n):
    await asyncio.sleep(0)
    return n * 2
async def main():
    return await asyncio.gather(*(fetch(i) for i in range(3)))
await main()
# %%
res = await fetch(21)
res
# %%
async def agen():
    for i in range(3):
        yield i
[x async for x in agen()]
# %%
cache = {}
async def cached(n):
    if n not in cache:
        cache[n] = await fetch(n)
    return cache[n]
await cached(4), cache
# %%
await cached(4), await cached(5), sorted(cache)
# %%
class Res:
    async def __aenter__(self):
        self.open = True
        return self
    async def __aexit__(self, *a):
        self.open = False
async with Res() as r:
    was = r.open
was, r.open
# %%
lock = asyncio.Lock()
async with lock:
    held = lock.locked()
held, lock.locked()
