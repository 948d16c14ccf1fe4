# %%
import calendar, datetime as dt, time
calendar.setfirstweekday(6)
d0 = dt.date(2024, 2, 28)
days = [d0 + dt.timedelta(i) for i in range(3)]
calendar.isleap(2024), days[-1]
# %%
print(calendar.month(2024, 2))
# %%
calendar.firstweekday(), [d.strftime("%a") for d in days]
# %%
delta = dt.datetime(2024, 3, 1) - dt.datetime(2024, 2, 1, 12)
delta.total_seconds() / 3600, max(days).isocalendar().week
# %%
t = dt.time(12, 30)
dt.datetime.combine(days[0], t) + delta
# %%
st = time.strptime("2024-05-06", "%Y-%m-%d")
st.tm_year, st.tm_yday
# %%
st.tm_mon, time.strftime("%d/%m", st), t.replace(hour=1)
