# %%
from contextlib import contextmanager, suppress, ExitStack
events = []
@contextmanager
def tag(name):
    events.append(f"<{name}>")
    try:
        yield name.upper()
    finally:
        events.append(f"</{name}>")
with tag("a") as t:
    inside = t
events
# %%
with tag("b"), tag("c"):
    events.append("body")
events[2:]
# %%
class Timer:
    runs = 0
    def __enter__(self):
        Timer.runs += 1
        return self
    def __exit__(self, kind, value, tb):
        self.kind = kind and kind.__name__
        return kind is ZeroDivisionError
with Timer() as tm:
    1 / 0
tm.kind, Timer.runs
# %%
with Timer() as tm2, suppress(KeyError):
    {}["x"]
tm2.kind, Timer.runs, tm.kind
# %%
with tag("d"):
    raise ValueError
# %%
events[-2:], inside
