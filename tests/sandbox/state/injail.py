"""A run of a notebook in the real jail: a process of its own, forked for it, which reads and writes behind the walls."""

from __future__ import annotations

import base64
import importlib
import inspect
from typing import Any, NamedTuple

from byref_sandbox import Limits, Sandbox
from byref_sandbox.testing import run_in_jail

LIMITS = Limits(wall_seconds=30, cpu_seconds=30, memory_bytes=1 << 30, result_bytes=64 << 20)
_MODULES = ("codes", "builders", "known", "writer", "reader", "settings", "faults", "graph")
# What the zygotes do not import yet comes as text: in here no file can be read.
SOURCES = {"pickletools": inspect.getsource(importlib.import_module("pickletools"))} | {
    f"byref_sandbox.state.{name}": inspect.getsource(importlib.import_module(f"byref_sandbox.state.{name}"))
    for name in _MODULES
}

_PRELUDE = """
import base64, sys, types
import byref_sandbox
sys.modules['byref_sandbox.state'] = package = types.ModuleType('byref_sandbox.state')
package.__path__ = []
for name, text in sources.items():
    sys.modules[name] = module = types.ModuleType(name)
    exec(compile(text, name, 'exec'), vars(module))
frame = sys._getframe()
while not hasattr(frame.f_locals.get('self'), '_language'):
    frame = frame.f_back
language = frame.f_locals['self']._language
import byref_sandbox.contents as contents_module
import byref_sandbox.state.graph as graphs
from byref_sandbox.state.known import Known
import io, msgspec
given = {}
space = language.space(given)
known = Known(language)
graph = graphs.Graph(known, space, given)
blobs = {base64.b64decode(key): base64.b64decode(blob) for key, blob in stored['blobs'].items()}
lost, error, value = {}, None, None
"""
_RUN = """
if stored['contents']:
    table = contents_module.decode_contents(base64.b64decode(stored['contents']))
    lost = graph.read(table, blobs.__getitem__, lambda digests: bytearray().join(map(blobs.__getitem__, digests)))
program = language.compile(cell)
graph.add_program(program.source, program.code)
try:
    value = language.execute(program, space, sys.stdout)
except Exception as caught:
    error = f'{type(caught).__name__}: {caught}'
names = {n: v for n, v in space.items() if contents_module.is_of_code(n) and n != 'df'}
written = graph.write(names, {})
new = {**written.bodies, **written.leaves}
result = {
    'value': repr(value),
    'error': error,
    'lost': {**lost, **written.lost},
    'contents': base64.b64encode(msgspec.msgpack.encode(written.contents)).decode(),
    'blobs': {base64.b64encode(key).decode(): base64.b64encode(blob).decode() for key, blob in new.items()},
}
"""


class Ran(NamedTuple):
    value: str
    error: str | None
    lost: dict[str, str]


class JailedNotebook:
    """Runs of code with the graph in between; here is nothing of it but bytes."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.stored: dict[str, Any] = {"contents": "", "blobs": {}}

    def run(self, cell: str) -> Ran:
        outcome = self.raw(_RUN, cell=cell)
        assert outcome.error is None, outcome.error
        told = outcome.value
        self.stored = {"contents": told["contents"], "blobs": self.stored["blobs"] | told["blobs"]}
        return Ran(told["value"], told["error"], told["lost"])

    def raw(self, source: str, **variables: object) -> Any:
        """The outcome of plain Python in the same surroundings."""
        given = {"sources": SOURCES, "stored": self.stored, "cell": "", **variables}
        # Named, for a run binds only the variables that its text names.
        return run_in_jail(f"sources, stored, cell\n{_PRELUDE}{source}", LIMITS, variables=given, sandbox=self._sandbox)


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
