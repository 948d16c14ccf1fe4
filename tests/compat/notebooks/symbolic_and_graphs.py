# %%
import sympy as sp
x, y = sp.symbols("x y")
expr = (x + 1) ** 2
sp.expand(expr)
# %%
sp.diff(expr, x), expr.subs(x, 3)
# %%
sols = sp.solve(x ** 2 - 2, x)
sols
# %%
expr2 = expr + y
sorted(map(str, expr2.free_symbols)), sols[1] ** 2
# %%
import networkx as nx
G = nx.Graph()
G.add_edge("a", "b", w=2)
G.add_edge("b", "c", w=3)
nx.shortest_path(G, "a", "c")
# %%
G.add_node("d", color="red")
G["a"]["b"]["w"], G.degree("b"), G.nodes["d"]
# %%
H = G.subgraph(["a", "b"]).copy()
H.number_of_edges(), sorted(G.nodes), nx.is_connected(G)
