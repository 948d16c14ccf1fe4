"""Headroom compared with the simplest model of it, over any sequence of events in a conversation."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, field
from fractions import Fraction

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run
from material import prose

from byref import Engine, Policy, Session, Usage

WINDOW, LIMIT, FLOOR = 20_000, 10_000, 2_000
POLICY = Policy(
    plaintext="truncate",
    truncate_tokens=50,
    min_threshold_bytes=FLOOR,
    max_threshold_bytes=None,
    context_percentage=None,
    max_result_tokens=None,
    headroom_percentage=0.5,
)


@dataclass
class Model:
    """A conversation's context in plain Python."""

    base: int = 0
    wrote: int | None = None
    """Of the base, by the model; None: nobody counted the base."""
    added: dict[int, int] = field(default_factory=dict)
    """By the step that added them, tokens by our count."""
    through: int = 0
    """Up to this step they are in the base."""
    steps: int = 0
    reported: int = 2_000
    estimated: int = 2_000

    def pending(self, through: int | None = None) -> int:
        last = self.through if through is None else through
        return sum(tokens for step, tokens in self.added.items() if step > last)

    def context(self, more: int = 0) -> int:
        return self.base + math.ceil((self.pending() + more) * Fraction(self.reported, self.estimated))

    def add(self, tokens: int) -> None:
        self.steps += 1
        self.added[self.steps] = tokens

    def use(self, given: int | None, made: int | None, through: int | None) -> None:
        self.steps += 1
        if given is None:
            return
        last = self.steps if through is None else min(through, self.steps)
        settled = self.pending() - self.pending(last)
        growth = given - self.base
        if self.wrote is not None and settled >= 500 and 0 < growth <= 4 * settled:
            expected = math.ceil(settled * Fraction(self.reported, self.estimated))
            kept = min(self.estimated, 8_000)
            self.reported = self.reported * kept // self.estimated + sorted([growth, expected, growth + self.wrote])[1]
            self.estimated = kept + settled
            self.reported = max(math.ceil(self.estimated / 2), min(self.reported, 3 * self.estimated))
        self.base, self.wrote, self.through = given + (made or 0), made, last

    def compact(self, tokens: int) -> None:
        self.steps += 1
        self.base, self.wrote, self.through = tokens, None, self.steps


class Conversation(RuleBasedStateMachine):
    """Outputs of all sizes, replies, usage, compactions and repeats, in one session."""

    shared: Engine

    def __init__(self) -> None:
        super().__init__()
        self.session: Session = self.shared.session(
            secrets.token_hex(8), tenant="model", context_window=WINDOW, policy=POLICY
        )
        self.model = Model()
        self.given: dict[str, tuple[str, int]] = {}
        self.requests: set[tuple[str, int | None, int | None]] = set()
        self.used = 0

    @initialize(given=st.integers(0, 3_000))
    def first_request(self, given: int) -> None:
        self.say(given, 0, None, None)

    @rule(size=st.sampled_from([0, 1, FLOOR - 1, FLOOR, FLOOR + 3, 4_000, 9_000, 20_000, 60_000]))
    def output(self, size: int) -> None:
        self.process(size)

    @rule(over=st.integers(0, 1))
    def output_that_fills_the_room(self, over: int) -> None:
        room = Fraction(max(LIMIT - self.model.base, 0) * self.model.estimated, self.model.reported)
        tokens = math.floor(room) - self.model.pending()
        if tokens * 4 < FLOOR:
            return
        route = self.process((tokens + over) * 4)
        assert route == ("truncate" if over else "inline")

    def process(self, size: int) -> str:
        tag = f"{self.model.steps:07}"
        text, call_id = (tag + prose(size))[:size], f"call {self.model.steps}"
        before, after = self.model.context(), self.model.context(math.ceil(size / 4))
        result = self.session.process(text, tool="t", call_id=call_id)
        if size < FLOOR:
            assert (result.route, result.reason) == ("inline", "below_floor")
        elif after <= LIMIT:
            assert (result.route, result.reason) == ("inline", "fits")
        else:
            assert (result.route, result.reason) == ("truncate", "headroom")
        self.model.add(result.tokens)
        assert result.step == self.model.steps
        if result.reason == "fits":
            assert self.model.context() == after <= LIMIT
        detail = self.session.ledger()[-1].detail
        assert (detail["context"], detail["headroom_limit"]) == (before, LIMIT)
        if result.reason == "headroom":
            assert (detail["value"], detail["limit"]) == (after, LIMIT)
        self.given[call_id] = text, self.model.steps
        return result.route

    @precondition(lambda self: self.given)
    @rule(data=st.data())
    def the_same_output_again(self, data: st.DataObject) -> None:
        call_id = data.draw(st.sampled_from(sorted(self.given)))
        text, step = self.given[call_id]
        assert self.session.process(text, tool="t", call_id=call_id).step == step

    @rule(call_id=st.sampled_from([None, "reply"]))
    def reply(self, call_id: str | None) -> None:
        arguments = {"artifact_id": "nothing", "end_line": self.model.steps}
        reply = self.session.call("artifact_read", arguments, call_id=call_id)
        self.model.add(reply.tokens)
        assert reply.step == self.model.steps
        if call_id is not None:
            assert self.session.call("artifact_read", arguments, call_id=call_id).step == reply.step

    @rule(
        ratio=st.sampled_from([0.0, 0.3, 0.8, 1.0, 1.3, 2.0, 3.9, 6.0]),
        made=st.none() | st.integers(0, 400),
        back=st.none() | st.integers(-2, 5),
        request=st.sampled_from([None, None, "a", "b"]),
    )
    def usage_of_what_was_pending(self, ratio: float, made: int | None, back: int | None, request: str | None) -> None:
        through = None if back is None else max(0, self.model.steps - back)
        last = self.model.steps if through is None else through
        settled = max(0, self.model.pending() - self.model.pending(last))
        self.say(self.model.base + round(settled * ratio), made, through, request)

    @rule(given=st.none() | st.integers(0, 8_000), made=st.none() | st.integers(0, 100))
    def usage_of_anything(self, given: int | None, made: int | None) -> None:
        self.say(given, made, None, None)

    def say(self, given: int | None, made: int | None, through: int | None, request: str | None) -> None:
        self.session.record_usage(Usage(given, made), request_id=request, through=through)
        if request is None or (request, given, made) not in self.requests:
            self.model.use(given, made, through)
            self.used += 1
        if request is not None:
            self.requests.add((request, given, made))

    @rule(given=st.integers(0, 10**6))
    def side_call(self, given: int) -> None:
        self.session.record_usage(Usage(given, 10), context=False)
        self.model.steps += 1
        self.used += 1

    @rule(tokens=st.integers(0, 5_000))
    def compaction(self, tokens: int) -> None:
        self.session.on_compaction(tokens)
        self.model.compact(tokens)

    @invariant()
    def the_context_is_the_models(self) -> None:
        assert self.session.context_tokens() == self.model.context()

    def teardown(self) -> None:
        """Steps have no gap and no twin, however many were taken back."""
        assert [entry.step for entry in self.session.ledger()] == list(range(1, self.model.steps + 1))
        assert self.session.usage().requests == self.used


@pytest.mark.parametrize("exact", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True)
def test_any_conversation_is_as_the_model_says(exact: Engine) -> None:
    Conversation.shared = exact
    run(
        Conversation,
        settings=settings(
            max_examples=settings.default.max_examples // 4, stateful_step_count=25, phases=[Phase.generate]
        ),
    )
