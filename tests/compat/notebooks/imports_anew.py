# %%
import math
import numpy as np, pandas as pd
from collections import Counter as C
pi = math.pi
# %%
math.floor(pi), C("aab")["a"], np.mean([1, 2])
# %%
import math as m
from math import *
from math import sqrt as root
m is math, sqrt(16), root(9), floor(2.7)
# %%
cos(0), factorial(5), m.gcd(12, 18)
# %%
import datetime
import datetime as dt
from datetime import datetime as D
datetime.date(2024, 1, 2), dt.timedelta(3), D(2024, 1, 1).isoformat()
# %%
datetime is dt, D is dt.datetime, D.fromisoformat("2024-05-06").month
# %%
import math
math.pi == pi, m.e
# %%
del m, C
math.tau
# %%
C("ab")
