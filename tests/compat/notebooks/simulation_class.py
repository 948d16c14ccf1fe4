# %%
import numpy as np
class Sim:
    def __init__(self, seed, n=3):
        self.rng = np.random.default_rng(seed)
        self.pos = np.zeros(n)
        self.history = [self.pos.copy()]
    def step(self, k=1):
        for _ in range(k):
            self.pos += self.rng.normal(size=self.pos.size)
            self.history.append(self.pos.copy())
        return self
sim = Sim(5)
sim.step(3).pos.round(4)
# %%
sim.step()
len(sim.history), sim.pos.round(4)
# %%
twin = Sim(5)
twin.step(4)
np.allclose(twin.pos, sim.pos)
# %%
sim.pos[0] = 100
sim.step().history[-1][0] > 90, twin.pos[0] < 90
# %%
runs = {s: Sim(s).step(2) for s in range(3)}
[round(float(runs[s].pos.sum()), 4) for s in runs]
# %%
runs[0].step()
[len(r.history) for r in runs.values()], runs[1].rng.random()
