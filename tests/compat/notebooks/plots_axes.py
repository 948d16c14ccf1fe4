# %%
import matplotlib.pyplot as plt
df = pd.DataFrame({"x": range(5), "y": [1, 3, 2, 5, 4], "g": list("aabba")})
ax = df.plot(x="x", y="y", kind="line", legend=False)
ax.set_xlabel("time")
ax.get_xlabel()
# %%
ax.axhline(3, ls="--")
ax.set_ylim(0, 10)
len(ax.lines), ax.get_ylim()
# %%
twin = ax.twinx()
twin.set_ylabel("right")
twin.get_ylabel(), len(ax.figure.axes)
# %%
fig, axes = plt.subplots(1, 2, sharey=True)
for a, (name, part) in zip(axes, df.groupby("g")):
    a.scatter(part.x, part.y)
    a.set_title(name)
plt.show()
# %%
[a.get_title() for a in axes], axes[0].get_ylim() == axes[1].get_ylim()
# %%
sec = ax.secondary_xaxis("top")
sec.set_xlabel("up")
sec.get_xlabel()
# %%
sec.get_xlabel(), ax.get_xlabel(), twin.get_ylabel()
