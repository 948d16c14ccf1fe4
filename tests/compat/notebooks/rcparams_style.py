# %%
import matplotlib.pyplot as plt
plt.rcParams["figure.figsize"] = (4, 3)
plt.rcParams.update({"axes.grid": True, "font.size": 9})
plt.rcParams["lines.linewidth"]
# %%
fig, ax = plt.subplots()
fig.get_size_inches().tolist()
# %%
plt.rcParams["font.size"], plt.rcParams["axes.grid"]
# %%
with plt.rc_context({"font.size": 20}):
    inner = plt.rcParams["font.size"]
inner, plt.rcParams["font.size"]
# %%
plt.style.use("ggplot")
plt.rcParams["axes.facecolor"]
# %%
plt.rcParams["axes.facecolor"], plt.rcParams["figure.figsize"]
# %%
plt.rcdefaults()
plt.rcParams["font.size"]
