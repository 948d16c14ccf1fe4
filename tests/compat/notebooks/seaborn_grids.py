# %%
import seaborn as sns, matplotlib.pyplot as plt
tips = pd.DataFrame({"bill": [10.0, 20, 30, 15, 25, 8], "tip": [1, 3, 5, 2, 4, 1], "sex": list("FMFMFM"), "day": list("aabbcc")})
sns.set_theme(style="whitegrid")
ax = sns.scatterplot(data=tips, x="bill", y="tip", hue="sex")
ax.get_xlabel()
# %%
ax.set_title("Tips")
ax.get_title(), plt.rcParams["axes.grid"]
# %%
g = sns.FacetGrid(tips, col="sex")
g.map_dataframe(sns.histplot, x="bill")
len(g.axes.flat)
# %%
g.set_axis_labels("B", "N")
g.axes.flat[0].get_xlabel()
# %%
pal = sns.color_palette("husl", 3)
len(pal), pal[0]
# %%
ax2 = sns.boxplot(data=tips, x="day", y="bill")
[t.get_text() for t in ax2.get_xticklabels()]
# %%
ax.get_title(), len(pal.as_hex())
