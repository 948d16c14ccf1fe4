# %%
import random
np.random.seed(42)
random.seed(1)
rng = np.random.default_rng(7)
old = np.random.RandomState(3)
np.random.rand(2).round(4), random.random(), rng.integers(0, 100, 3)
# %%
np.random.randn(2).round(4), random.randint(1, 1000), rng.normal(size=2).round(4)
# %%
random.sample(range(50), 3), np.random.choice(["a", "b", "c"], 4).tolist(), old.rand().round(5)
# %%
mine = random.Random(99)
mine.shuffle(deck := list(range(8)))
deck
# %%
mine.random(), rng.permutation(5).tolist(), np.random.permutation(5).tolist()
# %%
child = rng.spawn(1)[0]
state = random.getstate()
a = random.random()
child.integers(1000), a
# %%
random.setstate(state)
random.random() == a, rng.random() < 1, old.randint(10 ** 6)
