"""JSON text has the same value in chunks and as a whole."""

from __future__ import annotations

import json
import random
import time
from types import ModuleType
from typing import Any

import c_modules
import pytest
from hypothesis import given
from hypothesis import strategies as st
from json_values import DOCUMENTS, FORMS, TABLES, irregular
from material import records

from byref.jsonscan import chunks, parse, parse_chunked, parsing
from byref_sandbox import jsontext


@pytest.fixture(scope="module")
def marks(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return c_modules.compiled("byref/jsonscan/_marks", tmp_path_factory.mktemp("compiled"))


@pytest.fixture(autouse=True, params=["Python", "C"])
def small(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """A chunk of tens of bytes is as good as one of hundreds of thousands."""
    monkeypatch.setattr(parsing, "compiled", request.getfixturevalue("marks") if request.param == "C" else None)
    monkeypatch.setattr(chunks, "BIG", 0)
    for name, size in {"_SIZE": 40, "_LONG": 60, "_WINDOW": 16}.items():
        monkeypatch.setattr(parsing, name, size)


def outcome(data: bytes, read: Any) -> str:
    """What comes of a text; NaN is NaN, 1 is not 1.0, and members keep their order."""
    try:
        return repr(read(data))
    except jsontext.NotJSON as error:
        return f"refused: {error}"


@pytest.mark.slow
@given(DOCUMENTS, st.sampled_from([None, 1]), st.booleans())
def test_json_is_the_same_value(value: Any, indent: int | None, escaped: bool) -> None:
    data = json.dumps(value, indent=indent, ensure_ascii=escaped).encode("utf-8", "surrogatepass")
    assert outcome(data, parse) == outcome(data, jsontext.decode)


@pytest.mark.quick_cases(1)
@given(TABLES, st.data())
def test_what_is_no_json_is_refused_with_the_same_words(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value)
    at = data.draw(st.integers(0, len(text) - 1))
    wrong = data.draw(st.sampled_from(["", "]", "}", '"', ",", "x", "\\", ',"a":[', "{", "1"]))
    broken = (text[:at] + wrong + text[at + 1 :]).encode()
    assert outcome(broken, parse) == outcome(broken, jsontext.decode)


ROWS = json.dumps(records(30))[1:-1].encode()


@pytest.mark.parametrize(
    "text",
    [
        b"", b" ", b"1", b'"%s"' % (b"x" * 99), b"[%s]" % ROWS, b"\xef\xbb\xbf[%s]" % ROWS,
        b"[%s," % ROWS, b"[%s,]" % ROWS, b"[%s],[%s]" % (ROWS, ROWS), b"%s,%s" % (ROWS, ROWS), b"[%s]]" % ROWS,
        b"[,%s]" % ROWS, b"[%s,,%s]" % (ROWS, ROWS), b"[%s}" % ROWS, b'{"a":%s}' % ROWS, b'{"a":[%s},"b":1]' % ROWS,
        b'{"a":1,"a":[%s],"b":2,"a":[%s,3],"c":{"d":[%s],"d":[%s],"e":0}}' % (ROWS, ROWS, ROWS, ROWS),
        b'[%s,"%s]' % (ROWS, b"x" * 99), b'[%s,"%s\\"]' % (ROWS, b"x\\" * 99), b"[%s,\x80]" % ROWS,
        b'{"%s":1,"b":{"%s":"%s"}}' % (b"k\\n" * 99, b"k" * 99, b"\\u00e9\\ud83d\\ude00\\ud800" * 30),
        b"[%s%s]" % (b" " * 999, ROWS), b"[%s]" % (b"7" * 999), b"[" * 400 + b"1,2" + b"]" * 400, b"[%s, 1e999, NaN]" % ROWS,
        b"[%s]" % b",".join(b"[%s]" % (b",".join([b"1"] * count)) for count in range(60)),
    ],
)  # fmt: skip
def test_the_ends_of_texts(text: bytes) -> None:
    assert outcome(text, parse) == outcome(text, jsontext.decode)


IRREGULAR = {"irregular": [irregular(random.Random(seed)) for seed in range(500)]}


@pytest.mark.parametrize("value", (FORMS | IRREGULAR).values(), ids=FORMS | IRREGULAR)
@pytest.mark.parametrize("escaped", [True, False])
def test_no_chunk_is_long_whatever_the_form(monkeypatch: pytest.MonkeyPatch, value: Any, escaped: bool) -> None:
    """The longest text that one call of a parser reads is a few chunks, and little is read twice."""
    for name, size in {"_SIZE": 4_000, "_LONG": 6_000, "_SPARE": 4_000}.items():
        monkeypatch.setattr(parsing, name, size)
    monkeypatch.setattr(jsontext, "_PIECE", 4_000)
    lengths: list[int] = []
    decode = jsontext.decode
    monkeypatch.setattr(jsontext, "decode", lambda data: lengths.append(len(data)) or decode(data))
    data = json.dumps(value, ensure_ascii=escaped).encode()
    assert repr(parse_chunked(data)) == repr(value)
    assert max(lengths) < 4 * 4_000
    assert sum(lengths) < 1.3 * len(data)


@pytest.mark.parametrize("again", [b"[]", b'""', b"{", b'"[]" ', b'[]"%s"' % (b"x" * 5_000)], ids=repr)
def test_text_without_commas_is_soon_refused(monkeypatch: pytest.MonkeyPatch, again: bytes) -> None:
    """It would take a second for each MB to be looked through mark by mark."""
    monkeypatch.setattr(parsing, "_SIZE", 4_000)
    monkeypatch.setattr(parsing, "_WINDOW", 1 << 12)
    begun = time.process_time()
    with pytest.raises(jsontext.NotJSON):
        parse_chunked(again * (4_000_000 // len(again)))
    assert time.process_time() - begun < 0.5


@given(st.text('"\\\\an'))
def test_many_escapes_are_removed_as_few_are(text: str) -> None:
    data = json.dumps([text, text]).encode()
    few = parsing._without_escapes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parsing, "_FEW", 1)
        assert parsing._without_escapes(data) == few
    assert few.count(b'"') == 4
