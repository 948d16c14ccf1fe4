# %%
class AppError(Exception):
    code = 1
    def __init__(self, msg, *, detail=None):
        super().__init__(msg)
        self.detail = detail
class NotFound(AppError):
    code = 404
def find(x):
    raise NotFound("no " + x, detail={"x": x})
find("it")
# %%
try:
    find("that")
except AppError as e:
    caught = e
str(caught), caught.code, caught.detail
# %%
isinstance(caught, NotFound), caught.args, repr(caught)
# %%
caught.detail["more"] = 1
errors = [caught, ValueError("v"), KeyError("k")]
[type(e).__name__ for e in errors]
# %%
errors[0] is caught, errors[0].detail, [str(e) for e in errors]
# %%
raise errors[1]
# %%
try:
    try:
        find("q")
    except NotFound as inner:
        raise ValueError("outer") from inner
except ValueError as outer:
    chain = (type(outer.__cause__).__name__, str(outer.__cause__))
chain
