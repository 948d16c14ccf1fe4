"""The contracts for others' parts hold for our own."""

from __future__ import annotations

import pytest

from byref.accounting.tokens import CharCounter, Kind, SampledCounter, TokenCounter
from byref.testing.counters import TEXTS, TokenCounterContract
from byref.testing.interpreters import InterpreterContract
from byref_sandbox import Sandbox


class TestCharCounter(TokenCounterContract):
    @pytest.fixture
    def counter(self) -> CharCounter:
        return CharCounter()


class TestSampledCounter(TokenCounterContract):
    @pytest.fixture
    def counter(self) -> SampledCounter:
        return SampledCounter()


class TestSandbox(InterpreterContract):
    @pytest.fixture
    def interpreter(self, sandbox: Sandbox) -> Sandbox:
        return sandbox


class Growing:
    """Counts more at each call."""

    def __init__(self) -> None:
        self.calls = 0

    def count(self, text: str, kind: Kind = "text") -> int:
        self.calls += 1
        return len(text) + self.calls


class Strict:
    """Takes no text that cannot be encoded."""

    def count(self, text: str, kind: Kind = "text") -> int:
        return len(text.encode())


@pytest.mark.parametrize(
    ("counter", "text", "error"),
    [(Growing(), TEXTS["words"], AssertionError), (Strict(), TEXTS["a lone surrogate"], UnicodeEncodeError)],
)
def test_a_contract_finds_what_breaks_it(counter: TokenCounter, text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        TokenCounterContract().test_any_text_has_the_same_count_at_every_call(counter, text, "text")
