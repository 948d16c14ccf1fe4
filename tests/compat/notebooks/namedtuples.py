# %%
from collections import namedtuple
from typing import NamedTuple
Row = namedtuple("Row", "id name score", defaults=[0])
class Emp(NamedTuple):
    name: str
    salary: float = 1.0
    def raised(self, pct):
        return self._replace(salary=self.salary * (1 + pct))
rows = [Row(1, "a", 3), Row(2, "b")]
e = Emp("zed", 10)
rows[0].score, e.raised(0.5)
# %%
rows[1]._asdict(), e._fields, type(rows[0]).__name__
# %%
frame = pd.DataFrame(rows)
frame
# %%
back = [Row(*t) for t in frame.itertuples(index=False)]
back == rows, isinstance(back[0], Row), e == ("zed", 10)
# %%
x, *rest = sorted(rows, key=lambda r: -r.id)
x.name, rest[0]._replace(name="q"), Emp._make(["n", 2]).raised(1)
