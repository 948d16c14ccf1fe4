from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import vega_datasets
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from payloads import Memory

from byref.artifacts import grep as module
from byref.artifacts import patterns as patterns_module
from byref.artifacts.grep import COUNTED, GrepResult, grep
from byref.artifacts.lines import read_lines
from byref.errors import ToolError

AIRPORTS = (Path(vega_datasets.__file__).parent / "_data/airports.csv").read_bytes()

USERS = [f'  {{ "id": {i}, "role": "user" }},' for i in range(1, 52)]
USERS[2] = '  { "id": 3, "role": "admin" },'
USERS[48] = '  { "id": 49, "role": "admin" },'
FIFTY_ONE = Memory("\n".join(USERS).encode(), frame=100)


def search(payload: Memory | bytes, pattern: str, **options: object) -> GrepResult:
    payload = Memory(payload) if isinstance(payload, bytes) else payload
    result = grep(payload, pattern, **{"max_chars": 20_000, **options})  # type: ignore[arg-type]
    assert len(result.text) <= options.get("max_chars", 20_000)
    return result


def marked(result: GrepResult) -> list[int]:
    return [int(number) for number in re.findall(r"^> *(\d+)\| ", result.text, re.MULTILINE)]


def test_the_form_of_a_result():
    result = search(FIFTY_ONE, "admin", context_lines=2)
    head, mid = '  { "id": ', ', "role": "user" },'
    assert result.text == "\n".join(
        [
            "[2 matches for /admin/]",
            "",
            f"   1| {head}1{mid}",
            f"   2| {head}2{mid}",
            f'>  3| {head}3, "role": "admin" }},',
            f"   4| {head}4{mid}",
            f"   5| {head}5{mid}",
            "---",
            f"  47| {head}47{mid}",
            f"  48| {head}48{mid}",
            f'> 49| {head}49, "role": "admin" }},',
            f"  50| {head}50{mid}",
            f"  51| {head}51{mid}",
        ]
    )
    assert (result.matches, result.shown, result.complete) == (2, 2, True)


def test_the_number_of_a_hit_reads_that_line():
    (number,) = marked(search(FIFTY_ONE, '"id": 49'))
    assert USERS[number - 1] in read_lines(FIFTY_ONE, number, number, max_chars=500).text


def test_groups_that_touch_are_one():
    result = search(FIFTY_ONE, r'"id": (10|14|15|20)\b', context_lines=2)
    shown = re.findall(r"^(---)$|^[> ] +(\d+)\|", result.text, re.MULTILINE)
    assert [mark or int(number) for mark, number in shown] == [*range(8, 23)]
    assert marked(result) == [10, 14, 15, 20]


def test_a_range_bounds_the_search_and_what_is_shown():
    result = search(FIFTY_ONE, "admin", start=2, end=10, context_lines=5)
    assert (result.matches, marked(result)) == (1, [3])
    assert re.findall(r"^[> ] +(\d+)\|", result.text, re.MULTILINE) == [str(i) for i in range(2, 9)]
    assert search(FIFTY_ONE, "admin", start=49, end=49).matches == 1
    assert search(FIFTY_ONE, "admin", start=4, end=48).text == "[0 matches for /admin/]"
    assert search(FIFTY_ONE, "admin", end=1_000).matches == 2


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": 0}, "numbered from 1"),
        ({"start": 5, "end": 4}, "before the first"),
        ({"start": 52}, "past the end"),
        ({"context_lines": -1}, "context_lines=-1"),
        ({"pattern": ""}, "pattern is empty"),
        ({"pattern": "a" * 300_000}, "pattern has 300,000 bytes: expected at most 262,144"),
        ({"pattern": "k" * 260_000, "ignore_case": True}, "too complex"),
        ({"pattern": r"\pL" * 80_000}, "240,000 bytes, 240,000 of them in classes"),
        ({"pattern": "a?" * 100_000}, "200,000 bytes, 100,000 of them in classes, repetitions and unescaped dots"),
        ({"pattern": "(?:" + "ab" * 100_000 + "){1000}"}, "too complex"),
        ({"pattern": r"[\pL]" * 40_000}, "200,000 bytes, 200,000 of them in classes"),
        ({"pattern": r"\pL{900}"}, "too complex"),
        ({"pattern": r"\pL" * 5_000}, "too complex"),
        ({"pattern": r"[\pL\d]{40}"}, "too complex.* instructions"),
    ],
)
def test_what_cannot_be_searched_is_explained(options, message):
    start = time.process_time()
    with pytest.raises(ToolError, match=message):
        search(FIFTY_ONE, options.pop("pattern", "x"), **options)
    assert time.process_time() - start < 2


@pytest.mark.parametrize("options", [{"max_chars": 39}, {"max_chars": 5_000, "max_matches": 0}])
def test_a_reply_must_hold_something(options):
    with pytest.raises(ValueError, match="expected at least"):
        grep(FIFTY_ONE, "x", **options)


TEXT = "\n".join(["foo(bar)", "", "Été FOO", "a.b", r"C:\new", "baz foo", "  ", "end"]).encode()


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("foo", [1, 6]),
        ("(?i)foo", [1, 3, 6]),
        ("^$", [2]),
        (r"^\s*$", [2, 7]),
        ("^", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("$", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("x*", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("foo$", [6]),
        (r"\Afoo", [1]),
        (r"foo\z", [6]),
        (r"foo\Z", [6]),
        ("(?-m)^end", [8]),
        ("(?s-m:^end$)", [8]),
        ("foo|end", [1, 6, 8]),
        ("a.b", [4]),
        (r"\Qa.b\E", [4]),
        (r"[(]bar[)]", [1]),
        (r"[\]\[(]", [1]),
        ("été", []),
        ("(?i)été", [3]),
        (r"\p{Lu}t", [3]),
        (r"b\s+foo", []),
        (r"z\s+foo", [6]),
        ("foo\nend", []),
        (r"\)\n", []),
        (r"\)\C", []),
        (r"(?s)\).", []),
        (r"\)[^x]", []),
        (r"[\s\S]{3}foo", [6]),
        ("C:\\\\new", [5]),
    ],
)
def test_patterns_match_within_lines(pattern, lines):
    result = search(TEXT, pattern, context_lines=0)
    assert marked(result) == lines
    assert result.matches == len(lines)
    assert "literal" not in result.text


@pytest.mark.parametrize(
    ("pattern", "lines"), [("foo(", [1]), ("*", []), ("a.b(", []), (r"(?=foo)", []), (r"(a)\1", []), ("(?<x", [])]
)
def test_what_does_not_compile_is_searched_literally_and_that_is_said(pattern, lines):
    result = search(TEXT, pattern, context_lines=0)
    assert marked(result) == lines
    assert f"/{pattern}/, searched as literal text (no usable regular expression: " in result.text


def test_literal_text_with_case_and_bytes_that_are_not_utf8():
    assert marked(search(TEXT, "FOO(", ignore_case=True, context_lines=0)) == [1]
    assert marked(search(b"a\n\xed\xa0\x80\nb", "\ud800", context_lines=0)) == [2]
    assert search(b"a\n\xff\xfe\n\0b", "b").matches == 1


def test_a_pattern_with_a_line_break_says_why_it_never_matches():
    assert "a line break never matches" in search(TEXT, "foo\\nend").text


def test_case_is_ignored_on_request():
    assert search(TEXT, "été foo").matches == 0
    assert search(TEXT, "été foo", ignore_case=True).matches == 1


def test_an_exact_total_when_the_display_is_cut():
    result = search(b"x\n" * 1_000, ".", max_matches=40, context_lines=0, max_chars=5_000)
    assert result.text.startswith(
        "[1,000 matches for /./; INCOMPLETE: first 40 shown. Narrow the pattern, or go on with start_line=41]\n\n>    1| x\n"
    )
    assert (marked(result), result.matches, result.complete) == ([*range(1, 41)], 1_000, True)
    tight = search(b"x\n" * 100_000, ".", max_matches=1_000, context_lines=0, max_chars=2_000)
    assert f"; INCOMPLETE: first {tight.shown} shown." in tight.text
    assert len(marked(tight)) == tight.shown > 50


@pytest.mark.parametrize("frame", [700, 1 << 20])
def test_beyond_the_cap_it_is_more_than_that(frame):
    for lines, unit in ((COUNTED + 1, b"x\n"), (100_000, b"x\n"), (5_000, b"y\nx\n")):
        result = search(Memory(unit * lines, frame), "x", max_matches=40, context_lines=0)
        assert result.text.startswith(
            "[more than 1,000 matches for /x/; INCOMPLETE: first 40 shown. Narrow the pattern, or go on with start_line="
        )
        assert (result.matches, result.complete, result.shown) == (COUNTED, False, 40)
        assert "stopped" not in result.text
    most = search(Memory(b"x\n" * 3_000, frame), "x", max_matches=2_000, context_lines=0, max_chars=100_000)
    assert (most.matches, most.shown) == (2_000, 2_000)
    assert "[more than 2,000 matches for /x/; INCOMPLETE: first 2000 shown." in most.text
    assert "go on with start_line=2001]" in most.text


def test_matches_for_which_no_answer_has_room_are_only_counted():
    payload = Memory(b"".join(b"%d %s\n" % (n, b"x" if n % 9 == 0 else b"-" * 40) for n in range(2_000)), 5_000)
    every = module.search(payload, "x", context_lines=3)
    some = module.search(payload, "x", context_lines=3, max_chars=2_000)
    for size in (200, 1_000, 2_000):
        assert some.render(size, context_lines=3) == every.render(size, context_lines=3)
    assert some.render(2_000, context_lines=3).shown <= len(some.lines) < len(every.lines) == 50


@given(
    lines=st.lists(st.sampled_from(["", "-", "x", "-" * 600, f"x{'-' * 900}x"]), min_size=1, max_size=60),
    frame=st.integers(1, 4_000),
    context=st.integers(0, 30),
    size=st.integers(module.MIN_CHARS, 3_000),
)
def test_room_makes_no_difference_to_what_is_shown(lines, frame, context, size):
    payload = Memory("\n".join(lines).encode() or b"-", frame)
    every, some = (module.search(payload, "x", context_lines=context, max_chars=room) for room in (None, size))
    assert some.render(size, context_lines=context) == every.render(size, context_lines=context)


def test_what_is_not_needed_is_not_read():
    payload = Memory(b"x\n" * 1_000_000, 20_000)
    assert not search(payload, "x").complete
    assert sum(payload.read) < 100_000


def test_a_deadline_stops_the_search_and_says_where():
    class Slow(Memory):
        def chunks(self, line: int = 1) -> Iterator[tuple[int, bytes]]:
            for chunk in super().chunks(line):
                time.sleep(0.002)
                yield chunk

    slow = Slow((b"ab\n" * 99 + b"ac\n") * 1_000, 300)
    result = search(slow, "c|d", deadline=0.5, context_lines=0)
    line = int(re.search(r"stopped in line ([\d,]+) after", result.text)[1].replace(",", ""))
    assert not result.complete
    assert 50 < result.matches <= line // 100 + 1 < 1_000
    assert result.text.startswith(f"[more than {result.matches:,} matches for /c|d/; INCOMPLETE: first 50 shown.")
    assert "or go on with start_line=5001;" in result.text
    nothing = search(b"ab\n" * 3_000_000, "c", deadline=-1)
    assert nothing.text.startswith(
        "[no matches for /c/; INCOMPLETE: the search stopped in line 1 after -1 seconds. Go on with start_line=1]"
    )


@pytest.mark.parametrize(
    "pattern", ["b*c|b", "(a|a)*b", "(x+x+)+y", "(?:a?){500}a{500}", r"(?:[a-h0-9]{1,100} ?){1,9}z"]
)
@pytest.mark.parametrize("unit", ["b", "a", "ab ", "b\n", "a\n"])
def test_no_pattern_runs_away(pattern, unit):
    start = time.process_time()
    search((unit * (2 << 20))[: 2 << 20].encode(), pattern, deadline=0.5)
    assert time.process_time() - start < 6


def test_a_long_line_shows_the_surroundings_of_its_matches():
    records = [{"id": i, "name": f"nämé{i}"} for i in range(100_000)]
    text = json.dumps(records, ensure_ascii=False)
    for frame in (5_000, 1 << 20):
        result = search(Memory(text.encode(), frame), 'mé6543"', max_chars=2_000)
        assert result.text.startswith('[1 match for /mé6543"/]\n\n>  1| [column ')
        assert '{"id": 6543, "name": "nämé6543"}' in result.text
        column = int(re.search(r"\[column (\d+)\]", result.text)[1])
        assert text[column - 1 :].startswith('mé6543"')
        page = read_lines(Memory(text.encode(), frame), 1, column=column, max_chars=500)
        assert page.text.startswith('   1| mé6543"')


def test_every_match_in_a_lone_long_line_is_found():
    text = json.dumps([{"id": i, "pad": "x" * 900} for i in range(20_000)])
    for frame in (70_000, 1 << 20):
        result = search(Memory(text.encode(), frame), r'"id": \d*777\b', max_chars=20_000)
        assert re.findall(r'\[column \d+\].*?"id": (\d*777)\b', result.text) == [
            str(i) for i in range(20_000) if str(i).endswith("777")
        ]
        assert result.matches == 1


def test_several_long_lines_share_the_reply():
    long = b"x" * 800 + b"needle" + b"y" * 800
    result = search(b"short\n" + long * 20 + b"\n" + long + b"\nneedle\n", "needle", context_lines=1)
    assert marked(result) == [2, 2, 2, 2, 3, 4]
    assert result.matches == result.shown == 3
    assert "search line 2 alone to see them" in result.text
    assert search(b"short\n" + long * 20 + b"\n", "needle", start=2, end=2).text.count("needle") == 21


def test_a_match_is_never_cut_off():
    for context in (0, 5, 1_000):
        result = search(
            b"c" * 480 + b"\n" + (b"z" * 490 + b"\n") * 40 + b"needle in line\n" + b"d" * 10_000,
            "needle",
            context_lines=context,
            max_chars=1_024,
        )
        assert marked(result) == [42]
    wide = search(b"a" * 5_000_000 + b"needle" + b"b" * 3_000_000, "needle", max_chars=1_024)
    assert "aaneedlebb" in wide.text


def test_a_small_reply_is_still_bounded():
    for payload in (FIFTY_ONE, Memory(b"x" * 5_000 + b"admin" + b"x" * 5_000), Memory(b"admin\n" * 100_000)):
        for pattern in ("admin", "admin|" * 40, "(?=admin)" * 9, "("):
            for max_chars in (200, 250, 400):
                result = search(payload, pattern, max_chars=max_chars)
                assert result.shown == len(set(marked(result)))
    assert "admin" in search(Memory(b"x" * 5_000 + b"admin" + b"x" * 5_000), "admin", max_chars=200).text.split("\n")[2]


def test_anchors_hold_inside_a_long_line():
    data = b"a" * 3_000_000 + b"z" + b"a" * 10
    assert search(data, "^a{20}").text.count("[column 1]") == 1
    assert search(data, "^z").matches == search(data, "z$").matches == search(data, r"\bz").matches == 0
    assert search(data, "za{10}$").matches == search(data + b"\r\nb", "za{10}$").matches == 1
    assert search(data + b"\r\nb", "za{10}\r$").matches == 0


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("frame", [65_536, 1 << 20])
def test_a_match_may_be_as_long_as_its_line(frame: int) -> None:
    line = b'{"page":1,"items":[' + b'{"id":7},' * 200_000 + b'7],"status":"complete"}'
    payload = Memory(b"one\n" + line + b"\nthree", frame)
    for pattern in ("^.*$", r'"page":1.*"status":"complete"', r"^\{.*\}$", 'items.*complete"'):
        found = search(payload, pattern, start=2)
        assert marked(found)[:1] == [2] and found.complete and "line 2" not in found.text.partition("\n")[0], pattern
    assert search(payload, "^.*complete$").matches == 0
    # What is too long for that is said.
    payload = Memory(b"BEGIN" + b"x" * (17 << 20) + b"END\n")
    assert (
        "line 1 is so long that matches of more than 262,144 bytes are not found in it"
        in search(payload, "BEGIN.*END").text
    )
    assert "so long" not in search(payload, "NOTHING").text and search(payload, "xEND$").matches == 1


def test_lines_behind_a_long_one_keep_their_numbers():
    for frame in (1_000, 1 << 20):
        payload = Memory(b"one\n" + b"x" * 3_000_000 + b"\nthree\n" + b"y" * 2_000_000 + b"\nfive x\n", frame)
        result = search(payload, "three|x", context_lines=1)
        assert (result.matches, sorted(set(marked(result)))) == (3, [2, 3, 5])
        assert result.text.endswith("…\n>  5| five x")


def test_memory_and_reading_stay_bounded():
    payload = Memory(b"x" * (64 << 20) + b"\nneedle\n")
    assert search(payload, "x|needle").matches == 2
    assert sum(payload.read) < 8 << 20  # the rest of a line that matched is not read


CRLF = b"id,name\r\n1,bob\r\n2,a\rb\r\n\r\n3,al\r\r\nend\r"


@pytest.mark.parametrize("frame", [1, 3, 7, 1_000])
@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("bob$", [2]),
        ("^1,bob$", [2]),
        (r"bob\z", [2]),
        ("bob", [2]),
        ("bob|end", [2, 6]),
        ("bob.", []),
        (r"bob\s", []),
        ("name[^x]", []),
        ("name(?:$)", [1]),
        ("^$", [4]),
        (r"\r", [3, 5]),
        (r"a\rb$", [3]),
        ("al.$", [5]),
        ("end$", [6]),
        (r"\x0d", [3, 5]),
    ],
)
def test_the_carriage_return_before_a_line_feed_is_no_part_of_the_line(pattern, lines, frame):
    result = search(Memory(CRLF, frame), pattern, context_lines=0)
    assert (marked(result), result.matches) == (lines, len(lines))
    whole = search(Memory(CRLF, frame), pattern, context_lines=9)
    for row in whole.text.split("\n")[2:]:
        number = int(row[1:].split("|")[0])
        assert row[1:] == read_lines(Memory(CRLF), number, number, max_chars=500).text[1:]


@pytest.mark.parametrize("frame", [3, 4, 100])
def test_a_byte_order_mark_is_no_part_of_the_first_line(frame):
    payload = Memory("\ufeffid,name\n1,id\n\ufeff2,x\n".encode(), frame)
    assert search(payload, "^id,", context_lines=0).text.split("\n")[2:] == [">  1| id,name"]
    assert marked(search(payload, r"^\d", context_lines=0)) == [2]


def test_that_a_carriage_return_is_not_there_is_said():
    assert "a carriage return at a line's end is no part of the line" in search(CRLF, r"bob\r").text


def test_columns_and_numbers_hold_where_lines_end_in_two_characters():
    long = b"x" * 700
    data = (b"a\r\n" * 500_000) + long + b"needle\r\nlast"
    for pattern in ("needle$", "needle"):
        result = search(data, pattern, context_lines=1)
        assert "> 500001| [column 701] …" in result.text
        assert result.text.split("\n")[3].endswith("needle")
        assert "  500002| last" in result.text


WORDS = sorted({hashlib.blake2b(b"%d" % i).hexdigest()[: 6 + i % 7] for i in range(10_000)}, key=lambda w: w[::-1])


@pytest.mark.slow
@pytest.mark.parametrize("form", ["{}", r"\b(?:{})\b", "(?i){}", "x({})"])
@pytest.mark.parametrize("ignore_case", [False, True])
def test_ten_thousand_alternatives_are_searched_for(form, ignore_case):
    filler = b"".join(b"line %d of the log, status ok, request served\n" % i for i in range(100_000))
    data = filler + b"say x" + WORDS[7_000].encode() + b" now\n" + b"say " + WORDS[3].encode() + b" now\n"
    start = time.perf_counter()
    result = search(data, form.format("|".join(WORDS)), ignore_case=ignore_case, context_lines=0)
    assert time.perf_counter() - start < 4
    numbers = {"{}": [100_001, 100_002], "(?i){}": [100_001, 100_002], "x({})": [100_001]}
    assert marked(result) == numbers.get(form, [100_002])


@pytest.mark.slow
def test_ten_thousand_alternatives_stop_in_time():
    text = "".join(hashlib.blake2b(b"%d" % i).hexdigest()[:99] + "\n" for i in range(200_000))
    start = time.perf_counter()
    result = search(text.encode(), r"[0-9a-f]*z|".join(WORDS[:1_000]), deadline=0.5)
    assert time.perf_counter() - start < 4
    assert result.complete or "the search stopped in line" in result.text


@pytest.mark.parametrize("pattern", ["[" * 200_000 + "\\", "(" * 130_000 + "|" * 200 + ")" * 130_000, "\\Q" * 100_000])
def test_patterns_are_read_in_linear_time(pattern):
    start = time.perf_counter()
    with contextlib.suppress(ToolError):
        search(FIFTY_ONE, pattern)
    assert time.perf_counter() - start < 3


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        (r"\bÜbergabe\b", [1]),
        (r"\bМосква\b", [4]),
        (r"\bélégant\b", [3]),
        (r"\wbergabe", [1, 2]),
        (r"^\w+: ", [2]),
        (r"\Wbergabe", [5]),
        (r"[\w-]{4}gabe, [^\W]", [1]),
        (r"x[^\w]", []),
        (r"café\b", [3]),
    ],
)
def test_letters_that_are_not_ascii_are_letters(pattern, lines):
    text = "die Übergabe, 1\nRückÜbergabe: x\nélégant café\nв Москва и\n bergabe cafés\n"
    assert marked(search(text.encode(), pattern)) == lines


def naive(text: str, pattern: str, flags: int = 0) -> list[int]:
    lines = text.split("\n")
    lines = lines if lines[-1] else lines[:-1]
    pattern = re.sub(r"\\b(?=é)|(?<=é)\\b", r"\\B", pattern).replace(r"\w", r"[\wé]").replace(r"\W", r"[^\wé]")
    regexp = re.compile(pattern, re.ASCII | flags)
    return [number for number, line in enumerate(lines, 1) if regexp.search(line)]


ATOMS = st.sampled_from(
    ["a", "b", "é", "1", " ", ".", "^", "$", r"\b", r"\d", r"\w", r"\W", "[ab]", "[^a]", r"\S", "aa", ""]
)
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("(?:{0[0]}|{0[1]})".format),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "*?"])).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    ),
    max_leaves=6,
).filter(bool)


@settings(max_examples=settings.default.max_examples * 4)
@given(
    text=st.text(st.sampled_from("aab é1 \t\n\n"), min_size=1, max_size=80),
    pattern=PATTERNS,
    frame=st.integers(1, 40),
    context=st.integers(0, 3),
)
def test_the_same_lines_as_one_by_one(text, pattern, frame, context):
    expected = naive(text, pattern)
    result = search(Memory(text.encode(), frame), pattern, context_lines=context)
    assert (result.matches, marked(result)) == (len(expected), expected[:50])


@settings(max_examples=settings.default.max_examples * 4)
@given(
    text=st.text(st.sampled_from("ab1 \r\r\n\n"), min_size=1, max_size=80),
    pattern=st.one_of(PATTERNS, st.text(st.sampled_from("ab.$|()^\\s\r"), min_size=1, max_size=6)),
    frame=st.integers(1, 40),
)
def test_the_same_lines_with_carriage_returns(text, pattern, frame):
    with_returns = text.replace("\n", "\r\n")
    assume("\r\n" not in text and not text.endswith("\r"))
    expected = search(Memory(text.encode()), pattern, context_lines=0)
    result = search(Memory(with_returns.encode(), frame), pattern, context_lines=0)
    assert result.text == expected.text


@settings(max_examples=settings.default.max_examples * 2)
@given(
    text=st.text(st.sampled_from("ab1 \n"), min_size=1, max_size=60),
    patterns=st.lists(PATTERNS, min_size=3, max_size=9),
)
def test_the_order_of_alternatives_makes_no_difference(text, patterns):
    pattern = "|".join(patterns)
    expected = search(text.encode(), pattern)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patterns_module, "_SORTED_FROM", 2)
        assert search(text.encode(), pattern).text == expected.text
        assert search(text.encode(), f"(?:{pattern})").matches == expected.matches


@settings(max_examples=settings.default.max_examples * 2)
@given(
    text=st.text(st.sampled_from("aab é\n"), min_size=1, max_size=600),
    word=st.text(st.sampled_from("ab é"), min_size=1, max_size=6),
    frame=st.integers(1, 300),
    bounds=st.tuples(st.integers(1, 60), st.integers(0, 60)),
)
def test_the_same_lines_when_all_lines_are_long(text, word, frame, bounds):
    payload = Memory(text.encode(), frame)
    start = min(bounds[0], payload.line_count)
    end = start + bounds[1]
    expected = [number for number in naive(text, re.escape(word)) if start <= number <= end]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_SLICE_BYTES", 64)
        patch.setattr(module, "_MIN_SLICE_BYTES", 64)
        result = search(payload, word, start=start, end=end, context_lines=0, max_matches=1_000)
    assert result.matches == len(expected)
    assert list(dict.fromkeys(marked(result))) == expected


@pytest.mark.parametrize(
    "pattern", ["^00[A-M]", "Field,", "CA,USA", r"-1[0-9]{2}\.[0-9]+$", "x|Memorial", "Municipal", "no such"]
)
def test_gnu_grep_numbers_the_same_lines(pattern):
    env = {**os.environ, "LC_ALL": "C.UTF-8"}
    out = subprocess.run(
        ["grep", "-nE", "-e", pattern], input=AIRPORTS, capture_output=True, env=env, check=False
    ).stdout
    expected = [int(line.split(b":", 1)[0]) for line in out.splitlines()]
    result = search(Memory(AIRPORTS, 30_000), pattern, context_lines=0, max_matches=10_000, max_chars=1_000_000)
    assert (result.matches, marked(result)) == (len(expected), expected)
    assert bool(expected) == (pattern != "no such")
