# %%
class Node:
    def __init__(self, value, children=()):
        self.value, self.children, self.parent = value, list(children), None
        for c in self.children:
            c.parent = self
    def walk(self):
        yield self.value
        for c in self.children:
            yield from c.walk()
root = Node("r", [Node("a", [Node("b")]), Node("c")])
list(root.walk())
# %%
leaf = root.children[0].children[0]
leaf.parent.parent is root, leaf.value
# %%
leaf.children.append(Node("new"))
list(root.walk())
# %%
class Linked:
    def __init__(self, v, nxt=None): self.v, self.nxt = v, nxt
head = None
for i in range(500):
    head = Linked(i, head)
head.v
# %%
n, total = head, 0
while n:
    total += n.v
    n = n.nxt
total
# %%
graph = {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}
def paths(a, b, seen=()):
    if a == b:
        return [[b]]
    return [[a, *p] for n in graph[a] for p in paths(n, b)]
paths("a", "d")
# %%
graph["a"].append("d")
len(paths("a", "d")), head.nxt.v, list(root.walk())[-1]
