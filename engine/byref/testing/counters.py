"""The contract of `TokenCounter` as tests, which an author of a counter runs on it; needs pytest::

    class TestMyCounter(TokenCounterContract):
        @pytest.fixture
        def counter(self):
            return MyCounter()

Texts have up to 32 MB.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final, get_args

import pytest

from byref.accounting.tokens import Kind, TokenCounter

TEXTS: Final = {
    "empty": "",
    "words": "The orders of the last week, by region. " * 20,
    "JSON": '{"id": 1, "total": 99.5, "tags": ["a", "b"]}' * 20,
    "one word": "a" * 20_000,
    "blanks": " \n\t" * 5_000,
    "other scripts": "注文 заказ طلب 🧾" * 50,
    "a lone surrogate": "before \ud800 after",
    "control characters": "\0\x1b[31m\x7f",
    "special tokens": "<|endoftext|><|im_start|>system",
}
LARGE_BYTES: Final = 32 << 20
SECONDS: Final = 20.0
"""Seconds that even the largest text may take."""
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


class TokenCounterContract:
    """What every counter keeps to."""

    @pytest.fixture
    def counter(self) -> TokenCounter:
        """The counter to be tested."""
        raise NotImplementedError("a test of a counter has a fixture `counter`")

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
    def test_any_text_has_the_same_count_at_every_call(self, counter: TokenCounter, text: str, kind: Kind) -> None:
        counts = [counter.count(text, kind) for _ in range(3)]
        assert type(counts[0]) is int and counts[0] >= 0 and len(set(counts)) == 1

    def test_the_kind_may_be_left_out(self, counter: TokenCounter) -> None:
        assert counter.count("a text") == counter.count("a text", "text")

    @pytest.mark.parametrize("kind", KINDS)
    def test_longer_texts_have_more_tokens(self, counter: TokenCounter, kind: Kind) -> None:
        one, ten = (counter.count(TEXTS["words"] * times, kind) for times in (1, 10))
        assert 0 < one < ten, "what is cut to a number of tokens gets shorter, or that would go on for ever"

    def test_threads_count_alike(self, counter: TokenCounter) -> None:
        texts = [text for text in TEXTS.values() for _ in range(8)]
        expected = [counter.count(text) for text in texts]
        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(counter.count, texts)) == expected

    @pytest.mark.parametrize("unit", ["id,name,total\n", "a", "\n"], ids=["lines", "one word", "blank lines"])
    def test_a_large_text_is_counted_in_bounded_time(self, counter: TokenCounter, unit: str) -> None:
        text = unit * (LARGE_BYTES // len(unit))
        began = time.perf_counter()
        assert counter.count(text) > 0
        assert time.perf_counter() - began < SECONDS
