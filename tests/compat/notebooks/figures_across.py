# %%
import matplotlib.pyplot as plt
fig, ax = plt.subplots(figsize=(3, 2))
line, = ax.plot([1, 2, 3], [1, 4, 9], label="sq")
ax.set_title("one")
fig;
# %%
ax.plot([1, 2, 3], [3, 2, 1])
len(ax.lines), ax.get_title()
# %%
line.set_color("red")
ax.legend()
line.get_color(), [t.get_text() for t in ax.get_legend().get_texts()]
# %%
x, y = ax.lines[0].get_data()
list(y), ax.lines[0] is line, ax.figure is fig
# %%
fig2, axes = plt.subplots(2, 2)
axes[0, 0].bar(["a", "b"], [1, 2])
axes[1, 1].hist([1, 1, 2, 3])
None
# %%
[len(a.patches) for a in axes.flat], axes[0, 0].get_figure() is fig2
