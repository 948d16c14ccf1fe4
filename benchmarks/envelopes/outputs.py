"""The twenty outputs whose envelopes are judged: most are files of packages as they are, the rest is made alike at each run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from benchmarks import corpora
from benchmarks.corpora import published
from benchmarks.envelopes import made


@dataclass(frozen=True)
class Output:
    """What one tool returned, as text; `source` is what the answers are computed from: parsed JSON, or the text."""

    name: str
    tool: str
    text: str

    @cached_property
    def source(self) -> Any:
        """The JSON, parsed; the text itself where it is none."""
        return json.loads(self.text) if self.text[:1] in "[{" else self.text


OPENAPI = "api.github.com.json"
FILES = {
    "webhooks": ("get_webhook_examples", "index.json"),
    "openapi": ("get_openapi", OPENAPI),
    "ec2": ("get_service_model", "service-2.json"),
    "caniuse": ("get_support", "@caniuse"),
    "packages": ("get_lockfile", "npm-shrinkwrap.json"),
    "compat": ("get_compat_data", "@bcd"),
    "countries": ("list_countries", "countries.json"),
    "earthquakes": ("get_earthquakes", "earthquakes.json"),
    "topology": ("get_world", "countries-10m.json"),
    "emoji": ("list_emoji", "emoji.json"),
    "licences": ("get_licences", "spdx-full.json"),
    "movies": ("list_movies", "movies.json"),
}
"""By name, the tool and the file of `published`; two packages name theirs alike."""
MADE: dict[str, tuple[str, Callable[[], object]]] = {
    "pods": ("kubectl_get", made.pods),
    "invoices": ("list_invoices", made.invoices),
    "streams": ("query_logs", made.streams),
    "access": ("read_log", made.access),
}
MADE_OF_OPENAPI: dict[str, tuple[str, Callable[[dict[str, Any]], object]]] = {
    "pulls": ("list_pulls", made.pulls),
    "issues": ("search_issues", made.issues),
    "search": ("search_docs", made.search),
}
NAMES = (*MADE_OF_OPENAPI, *FILES, *MADE, "airports")
SHORT = ("pods", "invoices", "streams", "access", "airports")
"""Those that need nothing fetched."""


def each(*, fetch: bool, only: tuple[str, ...] = NAMES) -> Iterator[Output | str]:
    """Each output, or why it is left out; packages that are not kept here are fetched only if that is asked."""
    for name, (tool, make) in MADE.items():
        if name in only:
            yield Output(name, tool, _written(make()))
    if "airports" in only:
        yield Output(
            "airports", "export_airports", next(text for file, text in corpora.tables() if file == "airports.csv")
        )
    known = {_key(corpus): corpus for corpus in (*published.CORPORA, *published.FOR_ENVELOPES)}
    files = {known[file]: (name, tool) for name, (tool, file) in FILES.items() if name in only}
    for corpus, data in published.each(files, fetch=fetch):
        name, tool = files[corpus]
        yield Output(name, tool, data.decode()) if isinstance(data, bytes) else f"{name}: {data}"
    others = [name for name in MADE_OF_OPENAPI if name in only]
    if not others:
        return
    ((_, data),) = published.each([known[OPENAPI]], fetch=fetch)
    openapi = json.loads(data) if isinstance(data, bytes) else {}
    for name in others:
        tool, of_openapi = MADE_OF_OPENAPI[name]
        yield Output(name, tool, _written(of_openapi(openapi))) if openapi else f"{name}: {data!s}"


def _key(corpus: published.Corpus) -> str:
    name = PurePosixPath(corpus.file).name.removesuffix(".gz")
    alike = {"caniuse-db": "@caniuse", "@mdn/browser-compat-data": "@bcd"}
    return alike.get(corpus.package.name, name)


def _written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
