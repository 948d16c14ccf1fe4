"""CPU of writing and reading a session's names as one graph: `PYTHONPATH=tests/sandbox/state python benchmarks/state_graph.py`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from notebook import Notebook

from byref_sandbox.language.policy import Language
from byref_sandbox.state.graph import Graph
from byref_sandbox.state.known import Known

_MIXED = """
@dataclasses.dataclass
class P:
    x: int
    y: int = 2
t = pd.DataFrame({'a': [1, 2, 3], 'b': ['x', 'y', 'z']})
p = re.compile('a+')
p1 = P(1)
"""
_OBJECTS = """
t = pd.DataFrame({
    'a': range(45_000),
    'o': pd.Series([{'k': i} for i in range(45_000)], dtype=object),
    'l': [[i] for i in range(45_000)],
    's': [str(i) for i in range(45_000)],
})
"""
_INSTANCES = """
class C:
    def __init__(self, i):
        self.i = i
xs = [C(i) for i in range(10_000)]
"""
_RECORD = "{'id': i, 'name': 'n' + str(i), 'v': i / 3, 'tags': ['a', str(i)]}"
SESSIONS = {
    "30 plain names": "\n".join(f"n{i} = [{i}, 'x{i}', {{'a': {i}.5}}]" for i in range(30)),
    "30 mixed names": _MIXED
    + "\n".join(f"def f{i}(x, y={i}):\n    return x + y" for i in range(10))
    + "\n"
    + "\n".join(f"n{i} = [{i}, 'x{i}']" for i in range(15)),
    "45,000 rows with objects": _OBJECTS,
    "45,000 plain rows": "t = pd.DataFrame({'a': range(45_000), 's': [str(i) for i in range(45_000)]})",
    "500,000 rows of 6 floats": "t = pd.DataFrame(np.random.rand(500_000, 6), columns=list('abcdef'))",
    "10,000 instances": _INSTANCES,
    "270,000 records by value": f"xs = [{_RECORD} for i in range(270_000)]",
}


def milliseconds(action: Callable[[], Any]) -> str:
    """The least and the median of several times."""
    taken: list[float] = []
    while len(taken) < 3 or (sum(taken) < 0.5 and len(taken) < 100):
        begin = time.process_time()
        action()
        taken.append((time.process_time() - begin) * 1000)
    taken.sort()
    return f"{taken[0]:.2f}/{taken[len(taken) // 2]:.2f}"


def measure(known: Known, title: str, code: str, given: Mapping[str, object]) -> None:
    """Print what a session costs that changes nothing."""
    notebook = Notebook(known.language, lambda: given, known=known)
    notebook.run(code)
    notebook.run("None")
    table, blobs = notebook.stored.table, notebook.stored.blobs
    mapped = {digest: bytearray(blob) for digest, blob in blobs.items()}  # a private mapping costs no copy

    def read(wanted: list[str] | None = None) -> tuple[dict[str, Any], Graph]:
        space = known.language.space(given)
        graph = Graph(known, space, given)
        assert not graph.read(table, blobs.__getitem__, mapped.__getitem__, wanted)
        return space, graph

    space, graph = read()
    names = {name: space[name] for name in space if name in table.names()}
    written = graph.write(names)
    assert not written.lost
    to_write = milliseconds(lambda: graph.write(names))  # now: the next reading forgets the classes of this one
    sizes = [len(blobs[part.digest]) for part in table.parts]
    print(
        f"{title:28} read {milliseconds(read):16} if unwanted {milliseconds(lambda: read([])):14}"
        f" write and digest {to_write:18}"
        f" bytes {sum(sizes):,} sent again {sum(map(len, written.bodies.values())):,}"
    )


def main() -> None:
    """Measure each session."""
    known = Known(Language())
    for title, code in SESSIONS.items():
        measure(known, title, code, {})
    records = [{"id": i, "name": f"n{i}", "v": i / 3, "tags": ["a", str(i)]} for i in range(270_000)]
    measure(known, "270,000 records of a tool", "same = orders", {"orders": records})
    measure(known, "one record of a tool", "r = orders[1_000]", {"orders": records})


if __name__ == "__main__":
    main()
