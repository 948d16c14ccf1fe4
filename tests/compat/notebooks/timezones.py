# %%
from datetime import datetime, timedelta, timezone, date
from zoneinfo import ZoneInfo
t = datetime(2024, 3, 30, 12, tzinfo=ZoneInfo("Europe/Rome"))
idx = pd.date_range("2024-03-30", periods=3, freq="D", tz="Europe/Rome")
ts = pd.Series([1, 2, 3], index=idx)
t.utcoffset(), ts.index.tz
# %%
(t + timedelta(days=1)).utcoffset(), ts.tz_convert("UTC").index[2]
# %%
stamp = pd.Timestamp("2024-01-31", tz="US/Eastern")
delta = pd.Timedelta("1 days 2 hours")
off = pd.offsets.MonthEnd(2)
stamp + delta, stamp + off
# %%
utc = datetime(2020, 1, 1, tzinfo=timezone.utc)
fixed = timezone(timedelta(hours=5, minutes=30), "IST")
utc.astimezone(fixed).isoformat(), ts.index.freq
# %%
ts["2024-03-31"], idx.freqstr, fixed.tzname(None), stamp.tz, pd.NaT is pd.NaT
# %%
hol = pd.bdate_range("2024-12-20", periods=4)
bday = pd.offsets.CustomBusinessDay(holidays=["2024-12-25"])
(pd.Timestamp("2024-12-24") + bday).day, hol[-1].day_name()
# %%
(pd.Timestamp("2024-12-24") + 2 * bday).isoformat(), off.n, date(2024, 2, 29).replace(year=2028)
