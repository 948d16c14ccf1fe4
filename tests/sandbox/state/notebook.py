"""A session of several runs: the graph between them, and plain Python, which keeps everything."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from byref_sandbox.contents import Contents, decode_contents, is_of_code
from byref_sandbox.language.policy import Language
from byref_sandbox.state.graph import Graph, Written
from byref_sandbox.state.known import Known


class Stored:
    """What a host keeps: bytes by digest, and a table of contents."""

    def __init__(self) -> None:
        self.contents = b""
        self.blobs: dict[bytes, bytes] = {}
        self.lost: dict[str, str] = {}
        self.sent = 0

    def keep(self, written: Written) -> None:
        self.contents = msgspec.msgpack.encode(written.contents)
        new = {**written.bodies, **written.leaves}
        self.sent = sum(len(bytes(each)) for each in new.values())
        self.blobs |= {digest: bytes(each) for digest, each in new.items()}
        self.lost = written.lost

    @property
    def table(self) -> Contents:
        return decode_contents(self.contents)


class Notebook:
    """Runs of code, each in a namespace of its own, with the graph in between."""

    def __init__(
        self, language: Language, given: Callable[[], Mapping[str, object]] = dict, *, known: Known | None = None
    ) -> None:
        self.language = language
        self.known = known or Known(language)
        self.printed_by_graph = ""
        self.given = given
        self.stored = Stored()
        self.lost: dict[str, str] = {}
        self.printed = ""

    def run(self, source: str, *, wanted: list[str] | None = None, changed: tuple[str, ...] = ()) -> Any:
        """The value of the last expression; raises what the code raises."""
        given = dict(self.given())
        space = self.language.space(given)
        sizes = {name: _size(one) for name, one in given.items()}
        graph = Graph(self.known, space, given)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.lost = {}
            if self.stored.contents:
                blobs = self.stored.blobs
                self.lost = graph.read(
                    self.stored.table,
                    blobs.__getitem__,
                    lambda digests: bytearray().join(map(blobs.__getitem__, digests)),
                    wanted,
                )
        self.printed_by_graph += out.getvalue()
        program = self.language.compile(source)
        graph.add_program(program.source, program.code)
        try:
            return self.language.execute(program, space, out)
        finally:
            names = {
                name: value
                for name, value in space.items()
                if is_of_code(name) and given.get(name, _NOTHING) is not value and name != "df"
            }
            self.printed = out.getvalue()
            writing = io.StringIO()
            with contextlib.redirect_stdout(writing):
                same = {n: v for n, v in given.items() if n not in changed and _size(v) == sizes[n]}
                self.stored.keep(graph.write(names, same))
            self.printed_by_graph += writing.getvalue()
            self.lost |= self.stored.lost


def _size(one: object) -> int | None:
    return len(one) if isinstance(one, dict | list) else None


_NOTHING = object()
