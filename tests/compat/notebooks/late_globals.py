# %%
rate = 0.1
def tax(x):
    return round(x * rate, 3)
tax(100)
# %%
rate = 0.2
tax(100)
# %%
def bump():
    global counter
    counter = counter + 1 if "counter" in globals() else 1
    return counter
bump(), bump()
# %%
bump(), counter
# %%
def uses_later():
    return helper(2)
try:
    uses_later()
except NameError as e:
    msg = type(e).__name__
msg
# %%
def helper(n):
    return n * rate
uses_later()
# %%
config = {"rate": 1}
def from_config(): return config["rate"]
def set_config(**kw): config.update(kw)
set_config(rate=9, extra=True)
from_config()
# %%
from_config(), sorted(config), bump()
