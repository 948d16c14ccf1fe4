# %%
from decimal import Decimal, ROUND_HALF_UP
from fractions import Fraction
price = Decimal("19.99")
third = Fraction(1, 3)
prices = [price, Decimal("0.01")]
sum(prices), third + 1
# %%
(price * 3).quantize(Decimal("0.1"), ROUND_HALF_UP), third.limit_denominator(2), type(price).__name__
# %%
big = 2 ** 200
z = 3 + 4j
nan, inf = float("nan"), float("inf")
big % 10 ** 9, abs(z)
# %%
big == 2 ** 200, z.conjugate(), nan != nan, -inf < 0, True + 1
# %%
mixed = {1: "int", 2.5: "float", (1, 2): "tuple", None: "none", "1": "str", False: "bool"}
mixed[1], mixed[(1, 2)], mixed[None], len(mixed), mixed[0]
# %%
{type(k).__name__ for k in mixed} == {"int", "float", "tuple", "NoneType", "str", "bool"}, 10 ** -3, 7 // -2
# %%
import math, statistics, cmath
vals = [2.5, 3.5, 8]
statistics.mean(vals), statistics.stdev(vals), math.isclose(0.1 + 0.2, 0.3), cmath.phase(z)
