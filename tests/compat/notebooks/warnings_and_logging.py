# %%
import logging, warnings
logger = logging.getLogger("app")
logger.setLevel(logging.INFO)
lines = []
class ListHandler(logging.Handler):
    def emit(self, record):
        lines.append(self.format(record))
h = ListHandler()
h.setFormatter(logging.Formatter("%(levelname)s:%(message)s"))
logger.addHandler(h)
logger.info("hello %s", "x")
lines
# %%
logger.warning("again")
logger.debug("hidden")
lines
# %%
warnings.simplefilter("error")
try:
    warnings.warn("bad", UserWarning)
    r = "none"
except UserWarning as e:
    r = str(e)
r
# %%
try:
    warnings.warn("still", UserWarning)
    r = "none"
except UserWarning as e:
    r = str(e)
r
# %%
warnings.resetwarnings()
with warnings.catch_warnings(record=True) as got:
    warnings.simplefilter("always")
    warnings.warn("w1")
[str(w.message) for w in got]
# %%
logger.info("end")
len(lines), logger.name, logging.getLogger("app") is logger
