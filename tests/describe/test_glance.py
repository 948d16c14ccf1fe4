"""What is said of a text's lines is true of them, short, and said in bounded time whatever the text is."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from byref.describe.glance import glance, stretches

LOG = "\n".join(
    f"2026-11-{1 + n // 2000:02d} {n % 24:02d}:{n % 60:02d}:00,123 {'ERROR' if n % 9 == 0 else 'INFO'} [worker-{n % 7}] request {n} took {n % 900} ms"
    for n in range(8_000)
)
TEXTS = {
    "a log": LOG,
    "a short log": "\n".join(LOG.splitlines()[:9]),
    "an access log": "\n".join(
        f'10.0.0.{n % 255} - - [{1 + n % 28:02d}/Nov/2026:12:{n % 60:02d}:00 +0000] "GET /a/{n} HTTP/1.1" 200 {n}'
        for n in range(5_000)
    ),
    "syslog": "\n".join(
        f"Nov  3 12:{n % 60:02d}:01 host sshd[{n}]: Failed password for root from 10.0.0.{n % 255}"
        for n in range(4_000)
    ),
    "logfmt": "\n".join(
        f'ts=2026-11-03T12:00:00Z level={"warn" if n % 4 else "error"} msg="did {n}"' for n in range(4_000)
    ),
    "tracebacks": "\n".join(
        f'failed {n}\nTraceback (most recent call last):\n  File "/app/x.py", line {n}, in f\n{"Key" if n % 3 else "Value"}Error: x {n}'
        for n in range(3_000)
    ),
    "java": "\n".join(
        f"java.lang.IllegalStateException: x {n}\n\tat com.a.B.c(B.java:{n})\n\tat com.a.B.d(B.java:{n})"
        for n in range(2_000)
    ),
    "markdown": "# Top\n\nText.\n\n## First\n\nMore of it.\n\n## Second\n\n" + "Some words.\n\n" * 9,
    "prose": "\n".join(f"Sentence {'abcdefghij'[n % 10] * (n % 13)} says something of its own." for n in range(99)),
    "numbers": "\n".join(str(n * 7919) for n in range(40_000)),
    "one line": "x" * 3_000_000,
    "few lines": "a\nb\nc",
    "nothing": "",
}


def test_what_is_said() -> None:
    assert {name: glance(stretches(text)) for name, text in TEXTS.items()} == snapshot(
        {
            "a log": 'first time 2026-11-01 00:00:00,123, last 2026-11-04 07:19:00,123; in a sample of 174 lines INFO 154, ERROR 20; often "[worker-#] request # took # ms"',
            "a short log": 'first time 2026-11-01 00:00:00,123, last 2026-11-01 08:08:00,123; INFO 8, ERROR 1; often "[worker-#] request # took # ms"',
            "an access log": "first time 01/Nov/2026:12:00:00 +0000, last 16/Nov/2026:12:19:00 +0000",
            "syslog": 'first time Nov  3 12:00:01, last Nov  3 12:39:01; in a sample of 154 lines often "host sshd[#]: Failed password for root from #"',
            "logfmt": 'first time 2026-11-03T12:00:00Z, last 2026-11-03T12:00:00Z; in a sample of 229 lines WARN 176, ERROR 53; often "ts= msg=#"',
            "tracebacks": 'in a sample of 472 lines stack traces (KeyError 78, ValueError 41); often "failed #"',
            "java": 'in a sample of 380 lines stack traces (java.lang.IllegalStateException 125); often "at com.a.B.c(B.java:#)"',
            "markdown": 'often "Some words"; headings "Top", "First", "Second"',
            "prose": "",
            "numbers": "",
            "one line": "",
            "few lines": "",
            "nothing": "",
        }
    )


@pytest.mark.parametrize("name", TEXTS)
def test_times_are_those_of_the_first_and_the_last_line_that_has_one(name: str) -> None:
    found = re.search(r"first time (.+?), last (.+?)(?:;|$)", glance(stretches(TEXTS[name])))
    if found:
        lines = TEXTS[name].splitlines()
        assert found[1] in lines[0] and found[2] in lines[-1]


def test_a_text_that_is_read_whole_has_exact_counts() -> None:
    said = glance(stretches("\n".join(LOG.splitlines()[:90])))
    assert "INFO 80, ERROR 10" in said and "sample" not in said


@given(st.lists(st.text(max_size=80), max_size=40).map("\n".join))
def test_anything_is_said_in_one_printable_line(text: str) -> None:
    said = glance(stretches(text))
    assert len(said.splitlines()) <= 1 and len(said) < 1_500
    said.encode()


HOSTILE = {
    "words for errors": "\n".join(["a." * 90 + "Erro"] * 5_000),
    "quotes": "\n".join(["'" * 199] * 5_000),
    "digits": "\n".join(["1" * 199] * 5_000),
    "almost times": "\n".join(["2026-11-03T12:0 " * 12] * 5_000),
    "headings": "\n".join(["# " + "= " * 98] * 5_000),
    "control characters": "\n".join(["ERROR \x1b[31m\x00\x07 gone"] * 5_000),
    "carriage returns": "\r".join(["ERROR gone"] * 500_000),
    "surrogates": "\n".join(["ERROR \ud800 gone"] * 500),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_little_work(name: str) -> None:
    began = time.process_time()
    said = glance(stretches(HOSTILE[name]))
    assert time.process_time() - began < 0.5
    assert said.isprintable() and len(said) < 1_500
