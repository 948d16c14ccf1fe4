# %%
from functools import partial, reduce
import operator as op
double = partial(op.mul, 2)
by_name = op.itemgetter("name")
add3 = partial(lambda a, b, c: a + b * c, 1, c=3)
rows = [{"name": "b", "v": 2}, {"name": "a", "v": 1}]
double(4), add3(2)
# %%
sorted(rows, key=by_name)[0]["v"], [*map(double, range(3))]
# %%
def compose(*fs):
    return reduce(lambda f, g: lambda x: g(f(x)), fs)
pipeline = compose(str.strip, str.lower, lambda s: s.split(","))
pipeline("  A,B ")
# %%
handlers = {"up": str.upper, "len": len, "first": lambda s: s[0]}
{k: handlers[k]("word") for k in sorted(handlers)}
# %%
pipeline(" X,y"), add3(1, c=1), double.args, handlers["first"]("zoo")
