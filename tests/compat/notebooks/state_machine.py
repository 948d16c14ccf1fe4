# %%
from enum import Enum
class S(Enum):
    IDLE = "idle"; RUN = "run"; DONE = "done"
TRANSITIONS = {(S.IDLE, "start"): S.RUN, (S.RUN, "finish"): S.DONE}
class Machine:
    def __init__(self):
        self.state, self.hooks = S.IDLE, []
    def on(self, fn):
        self.hooks.append(fn)
        return fn
    def fire(self, ev):
        self.state = TRANSITIONS[(self.state, ev)]
        for h in self.hooks:
            h(self.state)
m = Machine()
trace = []
@m.on
def record(state):
    trace.append(state)
m.fire("start")
trace
# %%
m.fire("finish")
trace, m.state is S.DONE, trace[0] is S.RUN
# %%
m.fire("start")
# %%
m.state, len(m.hooks), m.hooks[0] is record
# %%
TRANSITIONS[(S.DONE, "reset")] = S.IDLE
m.fire("reset")
m.state.value, [s.name for s in trace]
