"""The knobs: their allowed values, the values of presets, the settings of single tools, and which of two settings wins."""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
import pickle
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from byref import CharCounter, ConfigurationError, Engine, Policy, Session, StorageFailure, ToolPolicy
from byref.artifacts.variables import identifier
from byref.policy.checks import MOST, MissingMapper
from byref.policy.stored import dumps, loads
from byref_sandbox import Sandbox

KNOBS = [field.name for field in dataclasses.fields(Policy)]
OF_ONE_TOOL = [name for name in KNOBS if name not in ("tools", "per_tool", "ledger_ttl", "default_context_window")]
INTEGERS = {
    "min_threshold_bytes": 0, "max_threshold_bytes": 1, "max_result_tokens": 1, "max_output_bytes": 1, "preview_tokens": 20,
    "keep_tokens": 1, "preview_chars": 0, "envelope_tokens": 100, "truncate_tokens": 50, "wholesale_tokens": 1, "default_context_window": 1, "reply_tokens": 100,
    "image_tokens": 0, "max_artifact_bytes": 1, "max_session_bytes": 1, "max_tenant_bytes": 1, "run_memory_bytes": 16 << 20,
    "run_output_bytes": 100, "run_result_bytes": 1000, "run_calls": 1, "run_calls_at_once": 1, "run_call_bytes": 1000,
    "max_session_calls": 1, "max_session_calls_at_once": 1, "max_session_call_bytes": 1000, "max_session_call_seconds": 1,
}  # fmt: skip
"""Each with the least that it may be."""
NUMBERS = {
    "context_percentage": (0, 1),
    "headroom_percentage": (0, 1),
    "run_seconds": (0.01, 3600),
    "run_cpu_seconds": (0.01, 3600),
    "run_recursion_depth": (50, 10_000),
    "run_wait_seconds": (0.01, 3600),
}
WORDS = {
    "mode": ["auto", "variables", "artifact", "truncate"],
    "plaintext": ["auto", "wholesale", "truncate", "artifact"],
    "envelope_form": ["outline", "variables", "references", "pointers", "previews"],
    "schema_form": ["short", "json-schema"],
    "tables": ["auto", "off"],
    "errors": ["truncate", "inline"],
    "on_storage_failure": ["truncate", "raise"],
    "trusted_instructions": ["mappers", "all", "none"],
}
DURATIONS = ("ttl", "ledger_ttl")
OR_NONE = {
    "context_percentage", "max_threshold_bytes", "max_result_tokens", "max_output_bytes", "envelope_tokens", "image_tokens",
    "keep_tokens", "ttl", "ledger_ttl", "max_session_bytes", "max_tenant_bytes", "wholesale_tokens",
    "max_session_calls", "max_session_calls_at_once", "max_session_call_bytes", "max_session_call_seconds",
}  # fmt: skip


class Odd:
    """What no knob is, and whose repr fails."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


def refused(**knobs: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        Policy(**knobs)
    return str(caught.value)


def test_every_knob_is_in_one_of_these_tables() -> None:
    assert {*INTEGERS, *NUMBERS, *WORDS, *DURATIONS, "enabled", "learn", "tools", "per_tool"} == set(KNOBS)


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_at_their_bounds(name: str) -> None:
    least, more = INTEGERS[name], ", or None" if name in OR_NONE else ""
    room: dict[str, Any] = (
        {"max_threshold_bytes": None} if name == "min_threshold_bytes" else {"min_threshold_bytes": 0}
    )
    for value in (least, least + 1, MOST):
        assert getattr(Policy(**{**room, name: value}), name) == value
    for value in (least - 1, -1 << 70, True, False, float(least), "7", [], (), {}, b"1"):
        assert refused(**{name: value}) == f"{name}={value!r}: expected an integer of at least {least}{more}"
    assert refused(**{name: MOST + 1}) == f"{name}={MOST + 1}: expected an integer of at most 2**53{more}"


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_at_their_bounds(name: str) -> None:
    (low, high), more = NUMBERS[name], ", or None" if name in OR_NONE else ""
    for value in (low, high, (low + high) / 2):
        assert getattr(Policy(**{name: value}), name) == value
    for value in (low - 1e-9, high + 1e-9, -1, float("nan"), float("inf"), True, "0.5", []):
        assert refused(**{name: value}) == f"{name}={value!r}: expected a number from {low} to {high}{more}"


@pytest.mark.parametrize("name", WORDS)
def test_words(name: str) -> None:
    for value in WORDS[name]:
        assert getattr(Policy(**{name: value}), name) == value
    for value in ("", WORDS[name][0].upper(), "x", 1, [], None, b"auto"):
        assert refused(**{name: value}) == f"{name}={value!r}: expected one of {WORDS[name]}"


@pytest.mark.parametrize("name", KNOBS)
def test_none_is_for_knobs_that_can_be_off(name: str) -> None:
    if name in OR_NONE:
        assert getattr(Policy(**{name: None}), name) is None
    else:
        assert refused(**{name: None}).startswith(f"{name}=None: expected ")


@pytest.mark.parametrize("name", DURATIONS)
def test_durations_are_timedeltas_or_seconds(name: str) -> None:
    for value in (1, 0.25, 1e-6, timedelta(seconds=3), timedelta(days=36_500)):
        held = getattr(Policy(**{name: value}), name)
        assert held == (value if isinstance(value, timedelta) else timedelta(seconds=value))
        assert loads(dumps(Policy(**{name: value})), Policy(), "s") == Policy(**{name: value})
    for wrong in (
        0,
        -1,
        1e-7,
        timedelta(0),
        timedelta(days=36_501),
        float("nan"),
        float("inf"),
        True,
        "7 days",
        [],
        b"1",
    ):
        assert "expected a timedelta, or seconds, above 0 and at most 36500 days, or None" in refused(**{name: wrong})
    assert Policy(per_tool={"t": {"ttl": 60}}) == Policy(per_tool={"t": {"ttl": timedelta(minutes=1)}})
    kept = Policy(per_tool={"t": {"ttl": 60}})
    assert loads(dumps(kept), Policy(), "s") == kept and kept.for_tool("t").ttl == timedelta(minutes=1)


@pytest.mark.parametrize("value", [0, 1, "yes", None, []])
def test_enabled_is_a_truth_value(value: object) -> None:
    assert refused(enabled=value) == f"enabled={value!r}: expected True or False"


@pytest.mark.parametrize("name", KNOBS)
def test_no_value_makes_an_error_long_or_fail(name: str) -> None:
    for value in (Odd(), -(10**5000), "x" * 10_000, b"y" * 10_000):
        assert name in (text := refused(**{name: value})) and len(text) < 500


def test_tools_are_names_in_the_order_given_each_once() -> None:
    assert Policy(tools=["artifact_read", "artifact_grep", "artifact_read"]).tools == ("artifact_read", "artifact_grep")
    assert Policy(tools=iter(())).tools == ()
    assert refused(tools=["artifact"]).startswith("tools: 'artifact' is unknown; there are ['code_interpreter', ")
    assert refused(tools=[["artifact_read"]]).startswith("tools: ['artifact_read'] is unknown")
    for value in ("artifact_read", 5, None):
        assert refused(tools=value).startswith(f"tools={value!r}: expected a list of names out of ")


def test_the_floor_is_not_above_the_ceiling() -> None:
    assert Policy(min_threshold_bytes=10, max_threshold_bytes=10).min_threshold_bytes == 10
    message = "min_threshold_bytes=11 is above max_threshold_bytes=10; the floor must not pass the ceiling"
    assert refused(min_threshold_bytes=11, max_threshold_bytes=10) == message
    knobs = {"min_threshold_bytes": 11}
    assert refused(max_threshold_bytes=10, min_threshold_bytes=0, per_tool={"x": knobs}) == f"per_tool['x']: {message}"


def test_an_unknown_knob_is_named_with_the_nearest_there_is() -> None:
    with pytest.raises(ConfigurationError, match=r"^'quota' is no knob of Policy; there are \['enabled', "):
        Policy().override(quota=5)
    with pytest.raises(ConfigurationError, match=r"^'headroom_percent' is no knob of Policy; did you mean 'headroom_p"):
        Policy.variables(headroom_percent=0.5)
    near = "'maper' is no knob of ToolPolicy; did you mean 'mapper'?"
    assert refused(per_tool={"x": {"maper": "."}}) == f"per_tool['x']: {near}"
    with pytest.raises(ConfigurationError) as caught:
        ToolPolicy(maper=".")
    assert str(caught.value) == near


# Presets

ONE_GATE = {
    "context_percentage": None,
    "min_threshold_bytes": 0,
    "max_threshold_bytes": None,
    "headroom_percentage": 1.0,
    "plaintext": "artifact",
    "keep_tokens": None,
    "tables": "off",
}
PRESETS: dict[str, dict[str, Any]] = {
    "variables": {"envelope_form": "variables", "wholesale_tokens": None, "keep_tokens": None, "tables": "off"},
    "references": {
        "envelope_form": "references",
        "plaintext": "artifact",
        "max_result_tokens": None,
        "keep_tokens": None,
        "tables": "off",
        "tools": ("artifact_read", "artifact_grep", "artifact_jq"),
    },
    "pointers": ONE_GATE
    | {
        "envelope_form": "pointers",
        "max_result_tokens": None,
        "max_output_bytes": 51_200,
        "tools": ("store_artifact", "get_artifact", "list_artifacts"),
    },
    "previews": ONE_GATE
    | {
        "envelope_form": "previews",
        "max_result_tokens": 2_500,
        "image_tokens": None,
        "tools": ("retrieve_offloaded_content",),
    },
}
DEFAULTS = {
    "enabled": True, "mode": "auto", "plaintext": "auto", "wholesale_tokens": 20_000,
    "envelope_form": "outline", "schema_form": "short", "tables": "auto", "context_percentage": 0.25, "min_threshold_bytes": 4_096, "max_threshold_bytes": 1_048_576, "headroom_percentage": 0.70, "max_result_tokens": 7_000,
    "max_output_bytes": None, "keep_tokens": 500, "preview_tokens": 1_000, "preview_chars": 200, "envelope_tokens": None,
    "truncate_tokens": 2_500, "errors": "truncate", "on_storage_failure": "truncate", "default_context_window": 128_000,
    "reply_tokens": 4_000, "image_tokens": 1_600, "trusted_instructions": "mappers", "learn": True,
    "tools": ("code_interpreter", "artifact_jq", "artifact_grep", "artifact_read"), "per_tool": {},
    "ttl": timedelta(days=7), "ledger_ttl": None, "max_session_bytes": 2 << 30, "max_tenant_bytes": None,
    "max_artifact_bytes": 1 << 30, "run_seconds": 30.0, "run_cpu_seconds": 20.0, "run_memory_bytes": 1 << 30,
    "run_output_bytes": 100_000, "run_result_bytes": 64 << 20, "run_recursion_depth": 1_000,
    "run_wait_seconds": 300.0, "run_calls": 10_000, "run_calls_at_once": 64, "run_call_bytes": 2 << 30,
    "max_session_calls": None, "max_session_calls_at_once": None, "max_session_call_bytes": None, "max_session_call_seconds": None,
}  # fmt: skip
OTHERS: dict[str, Any] = {
    "enabled": False, "mode": "truncate", "plaintext": "wholesale", "wholesale_tokens": 30_000, "envelope_form": "previews", "schema_form": "json-schema", "tables": "off", "context_percentage": 0.5,
    "min_threshold_bytes": 5_000, "max_threshold_bytes": 500_000, "headroom_percentage": 0.5, "max_result_tokens": 9_000,
    "max_output_bytes": 90_000, "keep_tokens": 600, "preview_tokens": 500, "preview_chars": 100, "envelope_tokens": 800, "truncate_tokens": 700,
    "errors": "inline", "on_storage_failure": "raise", "default_context_window": 64_000, "reply_tokens": 900,
    "image_tokens": 85, "trusted_instructions": "all", "learn": False, "tools": ("artifact_jq",), "per_tool": {"x": ToolPolicy(enabled=False)},
    "ttl": timedelta(hours=1), "ledger_ttl": timedelta(days=400), "max_session_bytes": 5 << 20, "max_tenant_bytes": 9 << 20,
    "max_artifact_bytes": 1 << 20, "run_seconds": 5.0, "run_cpu_seconds": 4.0, "run_memory_bytes": 1 << 28,
    "run_output_bytes": 5_000, "run_result_bytes": 1 << 20, "run_recursion_depth": 300,
    "run_wait_seconds": 60.0, "run_calls": 100, "run_calls_at_once": 8, "run_call_bytes": 1 << 20,
    "max_session_calls": 1_000, "max_session_calls_at_once": 9, "max_session_call_bytes": 1 << 21, "max_session_call_seconds": 600,
}  # fmt: skip
"""Of every knob a value that no preset has."""


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_exactly_these(preset: str) -> None:
    policy = getattr(Policy, preset)()
    assert {name: getattr(policy, name) for name in KNOBS} == DEFAULTS | PRESETS[preset]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", KNOBS)
def test_presets_take_every_knob(preset: str, name: str) -> None:
    policy = getattr(Policy, preset)(**{name: OTHERS[name]})
    assert {knob: getattr(policy, knob) for knob in KNOBS} == DEFAULTS | PRESETS[preset] | {name: OTHERS[name]}
    assert policy == getattr(Policy, preset)().override(**{name: OTHERS[name]})


def test_the_default_is_the_preset_of_variables_with_four_knobs_more() -> None:
    own = {"envelope_form": "outline", "wholesale_tokens": 20_000, "keep_tokens": 500, "tables": "auto"}
    assert Policy() == Policy.variables(**own) != Policy.variables()
    assert hash(Policy()) == hash(Policy.variables(**own))
    assert len({Policy.variables(), Policy.references(), Policy.pointers(), Policy.previews(), Policy()}) == 5


def test_the_envelope_follows_the_preview_unless_it_is_given() -> None:
    assert Policy().envelope_budget == 1_200
    assert Policy(preview_tokens=500).envelope_budget == 700
    assert Policy(preview_tokens=500, envelope_tokens=100).envelope_budget == 100


# What a policy is as a value


def test_a_repr_is_what_was_changed_and_makes_the_same() -> None:
    assert repr(Policy()) == "Policy()" and repr(ToolPolicy()) == "ToolPolicy()"
    policy = Policy(max_result_tokens=5, per_tool={"x": {"enabled": False, "mapper": ".a", "references": False}})
    written = "ToolPolicy(enabled=False, mapper='.a', references=False)"
    assert repr(policy) == f"Policy(max_result_tokens=5, per_tool={{'x': {written}}})"
    assert eval(repr(policy)) == policy


@pytest.mark.parametrize("policy", [Policy(), Policy(**OTHERS), *(getattr(Policy, preset)() for preset in PRESETS)])
def test_policies_are_values(policy: Policy) -> None:
    for same in (pickle.loads(pickle.dumps(policy)), copy.deepcopy(policy), dataclasses.replace(policy)):
        assert same == policy and hash(same) == hash(policy) and same.for_tool("x") == policy.for_tool("x")
    assert json.loads(json.dumps(dataclasses.asdict(policy), default=str))["mode"] == policy.mode


def test_policies_do_not_change() -> None:
    given = {"x": {"enabled": False}}
    policy = Policy(per_tool=given)
    given["x"]["enabled"], given["y"] = True, {}
    assert policy == Policy(per_tool={"x": ToolPolicy(enabled=False)})
    tool, per_tool = policy.tool("x"), policy.per_tool
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.enabled = False  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        tool.mapper = "."  # type: ignore[misc]
    changes: list[Callable[[Any], Any]] = [
        lambda held: held.update(y=1), lambda held: held.pop("x"), lambda held: held.clear(), lambda held: held.popitem(),
        lambda held: held.setdefault("y", 1), lambda held: held.__setitem__("x", 1), lambda held: held.__delitem__("x"),
        lambda held: held.__ior__({}),
    ]  # fmt: skip
    for change in changes:
        for held in (per_tool, tool.knobs, tool.names):
            with pytest.raises(TypeError, match=r"make another one with policy\.override\(\)"):
                change(held)


# One tool's own


@pytest.mark.parametrize("name", OF_ONE_TOOL)
def test_every_knob_can_be_one_tools(name: str) -> None:
    for settings in ({name: OTHERS[name]}, ToolPolicy(**{name: OTHERS[name]})):
        policy = Policy.previews(per_tool={"special": settings})
        assert policy.for_tool("special") == Policy.previews(**{name: OTHERS[name]})
        assert policy.for_tool("other") is policy and policy.tool("other") == ToolPolicy()
        assert policy.tool("special").knobs == {name: OTHERS[name]}


@pytest.mark.parametrize("name", OF_ONE_TOOL)
def test_what_is_wrong_with_one_tools_knob_names_both(name: str) -> None:
    text = refused(per_tool={"get_cart": {name: "?"}})
    assert text.startswith(f"per_tool['get_cart']: {name}='?': expected ")
    with pytest.raises(ConfigurationError, match=f"^{name}='\\?': expected "):
        ToolPolicy(**{name: "?"})


def test_a_tools_own_policy_still_has_its_mapper_and_names() -> None:
    settings = {
        "mapper": ".a",
        "template": "{{ data }}",
        "names": {"users": "user_list"},
        "references": False,
        "format": "csv",
    }
    policy = Policy(per_tool={"x": {"mode": "truncate", **settings}, "y": {"mapper": ".b"}})
    own = policy.for_tool("x")
    assert own.mode == "truncate" and own.tool("x") == ToolPolicy(**settings) and own.tool("y") == ToolPolicy()
    assert own.for_tool("x") == own
    assert ToolPolicy(**policy.tool("x").settings) == policy.tool("x")


def ordinary(value: Any) -> Any:
    return value


async def awaited(value: Any) -> Any:
    return value


class Awaited:
    async def __call__(self, value: Any) -> Any:
        return value


NAME = (
    "expected a Python identifier of at most 64 characters, neither a keyword or builtin nor var_step, "
    "and without leading, trailing or doubled underscores"
)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"mapper": ".a |"}, "mapper='.a |': no jq program: syntax error, unexpected end of file at <top-level>, line 1, column 4"),
        ({"mapper": "nosuch"}, "mapper='nosuch': no jq program: nosuch/0 is not defined at <top-level>, line 1, column 1"),
        ({"mapper": ".a) | (.b"}, "mapper='.a) | (.b': no jq program: syntax error, "),
        ({"mapper": 'import "a" as a; .'}, "mapper='import \"a\" as a; .': no jq program: module not found: a"),
        ({"mapper": " \n"}, "mapper=' \\n': it is empty"),
        ({"mapper": "."+ " " * 100_000}, "longer than 100,000 characters"),
        ({"mapper": ".a\0.b"}, "mapper='.a\\x00.b': it has a NUL character or half of a surrogate pair"),
        ({"mapper": ".\ud800"}, "mapper='.\\ud800': it has a NUL character or half of a surrogate pair"),
        ({"mapper": 5}, "mapper=5: expected a jq program or a function of the parsed output"),
        ({"mapper": {"callable": "x"}}, "mapper={'callable': 'x'}: expected a jq program or a function of the parsed output"),
        ({"mapper": awaited}, "expected an ordinary function, not one to be awaited"),
        ({"mapper": partial(awaited)}, "expected an ordinary function, not one to be awaited"),
        ({"mapper": Awaited()}, "expected an ordinary function, not one to be awaited"),
        ({"template": "{% if %}"}, "template='{% if %}': no template: Expected an expression, got 'end of statement block' at line 1"),
        ({"template": "a\n{{ a|nosuch }}"}, "no template: No filter named 'nosuch'. at line 2"),
        ({"template": "{% include 'x' %}"}, "no template: a template stands alone: no include, import or extends at line 1"),
        ({"template": "{% extends x %}"}, "no template: a template stands alone: no include, import or extends at line 1"),
        ({"template": "{{" * 40_000}, "no template: nested too deeply"),
        ({"template": ""}, "template='': it is empty"),
        ({"template": 5}, "template=5: expected the text of a Jinja template"),
        ({"names": ["users"]}, "names=['users']: expected a mapping of keys to names, like {\"users\": \"user_list\"}"),
        ({"names": {5: "users"}}, "names: 5 is no key of a JSON object; expected a string"),
        ({"names": {"a": "users", "b": "users"}}, "names: 'users' is the name of two keys"),
        *(({"names": {"a": name}}, f"names['a']={name!r}: {NAME}")
          for name in ("", "1a", "a b", "$a", "for", "match", "list", "_a", "a_", "a__b", "ﬁ", "var_step_3", "a" * 65, 5, None)),
        ({"references": 1}, "references=1: expected True or False"),
        ({"format": "xls"}, "format='xls': expected one of ['csv', 'box', 'expanded', 'aligned', 'ndjson', 'text'], or None"),
        ({"tools": []}, "tools belongs to the session's policy, not to a tool's"),
        ({"per_tool": {}}, "per_tool belongs to the session's policy, not to a tool's"),
        ({"ledger_ttl": 5}, "ledger_ttl belongs to the session's policy, not to a tool's"),
        ({"default_context_window": 1_000}, "default_context_window belongs to the session's policy, not to a tool's"),
    ],
)  # fmt: skip
def test_what_a_tool_cannot_have(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ToolPolicy(**settings)
    assert text in str(caught.value) and len(str(caught.value)) < 600
    assert refused(per_tool={"get_cart": settings}) == f"per_tool['get_cart']: {caught.value}"


@pytest.mark.parametrize("given", [5, "x", [("enabled", False)], {5: 1}, None])
def test_a_tools_policy_is_a_tool_policy_or_a_dict(given: object) -> None:
    assert (
        refused(per_tool={"x": given})
        == f"per_tool['x']: {given!r}: expected a byref.ToolPolicy, or a dict of its knobs"
    )


def test_per_tool_is_a_mapping_of_names() -> None:
    assert refused(per_tool=[]).startswith("per_tool=[]: expected a mapping of tool names to knobs, like {")
    for name in (5, "", None):
        assert refused(per_tool={name: {}}) == f"per_tool: {name!r} is no name of a tool"


@pytest.mark.parametrize("name", ["user_list", "seite", "größe", "a" * 64, "page_info", "x2"])
def test_names_that_are_taken_are_the_names_of_variables(name: str) -> None:
    assert ToolPolicy(names={"users": name}).names == {"users": name} and identifier(name) == name


def test_without_jinja_templates_are_refused_by_the_name_of_the_extra() -> None:
    code = (
        "import sys; sys.modules['jinja2'] = None\n"
        "import byref\n"
        "try: byref.Policy(per_tool={'x': {'template': '{{ data }}', 'mapper': '.'}})\n"
        "except byref.ConfigurationError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout == "per_tool['x']: template='{{ data }}': templates need Jinja2; pip install 'byref[templates]'\n"


# What is kept with a session


def test_a_policy_is_kept_whole(tmp_path: Path, sandbox: Sandbox) -> None:
    settings = {
        "mapper": ".a + 1",
        "template": "{{ data }}",
        "names": {"a": "b"},
        "references": False,
        "format": "text",
    }
    policy = Policy(**OTHERS).override(per_tool={"x": {"mode": "artifact", **settings}})
    with Engine(f"sqlite:///{tmp_path}/byref.db", interpreter=sandbox) as engine:
        engine.session("s", policy=policy)
        engine.session("t")
    with Engine(f"sqlite:///{tmp_path}/byref.db", interpreter=sandbox, policy=Policy.pointers()) as engine:
        assert engine.session("s")._scope.policy == policy
        assert engine.session("t")._scope.policy == Policy.pointers()
        assert engine.session("s", policy=Policy())._scope.policy == Policy()
        assert engine.session("s")._scope.policy == policy


class Called:
    def __call__(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize(
    ("mapper", "name"),
    [
        (ordinary, "test_policy.ordinary"),
        (Called(), "test_policy.Called"),
        (partial(ordinary), "functools.partial"),
        (len, "builtins.len"),
        (MissingMapper("a.b", "x"), "a.b"),
    ],
)
def test_of_a_callable_the_name_is_kept_and_the_engine_has_the_rest(mapper: Any, name: str) -> None:
    text = dumps(Policy(mode="truncate", per_tool={"x": {"mapper": mapper, "enabled": False}}))
    assert json.loads(text)["per_tool"] == {"x": {"enabled": False, "mapper": {"callable": name}}}
    missing = ToolPolicy(enabled=False, mapper=MissingMapper(name, "x"))
    for own in (Policy(), Policy(per_tool={"x": {"mapper": "."}, "y": {"mapper": ordinary}})):
        assert loads(text, own, "s") == Policy(mode="truncate", per_tool={"x": missing})
    own = Policy(per_tool={"x": {"mapper": ordinary, "mode": "artifact"}})
    assert loads(text, own, "s").tool("x") == ToolPolicy(enabled=False, mapper=ordinary)


def test_knobs_of_another_version_are_left_out() -> None:
    kept = json.loads(dumps(Policy(max_result_tokens=5, per_tool={"x": {"mode": "truncate"}})))
    kept["of_tomorrow"], kept["per_tool"]["x"]["of_tomorrow"] = 1, 2
    del kept["image_tokens"]
    assert loads(json.dumps(kept), Policy.pointers(), "s") == Policy(
        max_result_tokens=5, per_tool={"x": {"mode": "truncate"}}
    )


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "5", "null", '"x"', '{"mode": "of_tomorrow"}', '{"per_tool": []}', '{"per_tool": {"x": 5}}',
        '{"per_tool": {"x": {"mapper": ".a |"}}}', '{"per_tool": {"x": {"template": "{{"}}}', '{"tools": ["of_yesterday"]}',
        '{"per_tool": {"x": {"names": {"a": "for"}}}}', '{"per_tool": null}', '{"min_threshold_bytes": 5, "max_threshold_bytes": 1}',
    ],
)  # fmt: skip
def test_a_policy_that_is_none_any_more_gives_way_to_the_engines(
    text: str, caplog: pytest.LogCaptureFixture, local: Engine, tenant: str
) -> None:
    assert loads(text, Policy.pointers(), "s") == Policy.pointers()
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert "the policy kept with session 's' cannot be used, the engine's holds: " in record.getMessage()
    local.session("s", tenant=tenant, policy=Policy(mode="truncate"))
    if text:  # an empty one is none
        local.database.write(
            lambda c: c.exec_driver_sql("UPDATE byref_sessions SET policy = ? WHERE tenant = ?", (text, tenant))
        )
        session = local.session("s", tenant=tenant)
        assert session._scope.policy == local.policy and session.process("x", tool="t").content == "x"


# Through `process`: what one tool has of its own

ROWS = json.dumps([{"id": i, "name": f"name {i}"} for i in range(2_000)])
TEXT = {size: ("line of text\n" * (size // 13 + 1))[:size] for size in (2_000, 10_000, 20_000, 40_000, 80_000, 100_000)}


@pytest.fixture(scope="module")
def counting(sandbox: Sandbox) -> Iterator[Engine]:
    """An engine in memory that counts four characters a token in text and two in JSON."""
    with Engine("sqlite:///:memory:", interpreter=sandbox, counter=CharCounter()) as made:
        yield made


def opened(engine: Engine, tools: list[str] | None = None, **knobs: Any) -> Session:
    return engine.session(secrets.token_hex(8), context_window=200_000, policy=Policy(**knobs), tools=tools)


@pytest.mark.parametrize(
    ("knob", "value", "others", "output", "usual", "special"),
    [
        ("enabled", False, {}, ROWS, ("variables", "max_result_tokens"), ("inline", "disabled")),
        ("mode", "truncate", {}, ROWS, ("variables", "max_result_tokens"), ("truncate", "max_result_tokens")),
        ("plaintext", "artifact", {}, TEXT[40_000], ("wholesale", "max_result_tokens"), ("artifact", "max_result_tokens")),
        ("envelope_form", "references", {}, ROWS, ("variables", "max_result_tokens"), ("artifact", "max_result_tokens")),
        ("context_percentage", 0.01, {}, TEXT[10_000], ("inline", "fits"), ("wholesale", "context_percentage")),
        ("wholesale_tokens", 9_999, {}, TEXT[40_000], ("wholesale", "max_result_tokens"), ("truncate", "max_result_tokens")),
        ("min_threshold_bytes", 20_001, {"context_percentage": 0.01}, TEXT[20_000], ("wholesale", "context_percentage"), ("inline", "below_floor")),
        ("max_threshold_bytes", 19_999, {}, TEXT[20_000], ("inline", "fits"), ("truncate", "above_ceiling")),
        ("headroom_percentage", 0.01, {}, TEXT[20_000], ("inline", "fits"), ("truncate", "headroom")),
        ("max_result_tokens", 499, {}, TEXT[2_000], ("inline", "below_floor"), ("wholesale", "max_result_tokens")),
        ("max_output_bytes", 2_000, {}, TEXT[2_000], ("inline", "below_floor"), ("wholesale", "max_output_bytes")),
        ("max_artifact_bytes", 1_000, {}, ROWS, ("variables", "max_result_tokens"), ("truncate", "max_artifact_bytes")),
    ],
)  # fmt: skip
def test_a_knob_of_one_tool_moves_its_outputs_alone(
    counting: Engine, knob: str, value: object, others: dict[str, Any], output: str, usual: Any, special: Any
) -> None:
    for tool, expected in (("usual", usual), ("special", special), ("another", usual)):
        result = opened(counting, **others, per_tool={"special": {knob: value}}).process(output, tool=tool)
        assert (result.route, result.reason) == expected, tool


@pytest.mark.parametrize(
    ("knob", "value", "others", "output", "most"),
    [
        ("preview_tokens", 100, {"mode": "variables", "envelope_form": "variables"}, ROWS, 300),
        ("envelope_tokens", 150, {}, ROWS, 150),
        ("truncate_tokens", 60, {"plaintext": "truncate"}, TEXT[100_000], 60),
        ("truncate_tokens", 60, {"mode": "truncate"}, ROWS, 60),
    ],
)
def test_a_bound_of_one_tool_bounds_its_outputs_alone(
    counting: Engine, knob: str, value: int, others: dict[str, Any], output: str, most: int
) -> None:
    fixed = {"mode": "variables"} if not others else {}
    special, usual = (
        opened(counting, [], **others, **fixed, per_tool={"special": {knob: value}}).process(output, tool=tool)
        for tool in ("special", "usual")
    )
    assert special.tokens <= most and special.tokens < usual.tokens


def test_a_pointers_preview_is_as_long_as_the_tool_says(counting: Engine) -> None:
    policy = Policy.pointers(per_tool={"special": {"preview_chars": 20}})
    session = counting.session(secrets.token_hex(8), policy=policy)
    for tool, length in (("usual", 200), ("special", 20)):
        envelope = session.process(TEXT[100_000], tool=tool).envelope
        assert envelope is not None
        assert envelope["preview"].partition("\n...(truncated, ")[0] == TEXT[100_000][:length].rstrip("\n")


def test_errors_of_one_tool_may_pass_whole(counting: Engine) -> None:
    session = opened(counting, per_tool={"special": {"errors": "inline"}})
    assert session.process(TEXT[40_000], tool="usual", is_error=True).route == "truncate"
    assert session.process(TEXT[40_000], tool="special", is_error=True).content == TEXT[40_000]


def test_a_storage_failure_may_be_raised_for_one_tool(tmp_path: Path, sandbox: Sandbox) -> None:
    with Engine(f"sqlite:///{tmp_path}/byref.db", interpreter=sandbox) as engine:
        session = engine.session("s", policy=Policy(per_tool={"special": {"on_storage_failure": "raise"}}))
        engine.database.write(lambda connection: connection.exec_driver_sql("DROP TABLE byref_ledger"))
        assert session.process(ROWS, tool="usual").reason == "storage_failure"
        with pytest.raises(StorageFailure):
            session.process(ROWS, tool="special")


# Through `process`: which of two knobs wins

LOW = {"max_result_tokens": None}


@pytest.mark.parametrize(
    ("knobs", "tools", "output", "expected"),
    [
        # The floor: before all gates but the absolute limits.
        ({"max_result_tokens": 499}, None, TEXT[2_000], ("wholesale", "max_result_tokens")),
        ({"max_output_bytes": 2_000}, None, TEXT[2_000], ("wholesale", "max_output_bytes")),
        ({"headroom_percentage": 0.0}, None, TEXT[2_000], ("inline", "below_floor")),
        ({"context_percentage": 0.0}, None, TEXT[2_000], ("inline", "below_floor")),
        # The ceiling: before window, headroom and wholesale.
        ({**LOW, "max_threshold_bytes": 19_999, "context_percentage": 1.0}, None, TEXT[20_000], ("truncate", "above_ceiling")),
        ({**LOW, "max_threshold_bytes": 19_999, "plaintext": "wholesale"}, None, TEXT[20_000], ("truncate", "above_ceiling")),
        ({**LOW, "max_threshold_bytes": 19_999, "headroom_percentage": 1.0}, None, TEXT[20_000], ("truncate", "above_ceiling")),
        # Absolute limits: before ceiling and percentage; tokens before bytes.
        ({"max_result_tokens": 10, "max_output_bytes": 10, "max_threshold_bytes": 5_000}, None, TEXT[20_000], ("truncate", "max_result_tokens")),
        # Wholesale, fixed: past every gate but the ceiling; `auto` heeds its own bound and headroom.
        ({"plaintext": "wholesale", "headroom_percentage": 0.01}, None, TEXT[100_000], ("wholesale", "max_result_tokens")),
        ({"plaintext": "auto", "headroom_percentage": 0.01}, None, TEXT[40_000], ("truncate", "headroom")),
        ({"plaintext": "auto", "headroom_percentage": 1.0}, None, TEXT[80_000], ("wholesale", "max_result_tokens")),
        ({"plaintext": "auto", "headroom_percentage": 1.0}, None, TEXT[100_000], ("truncate", "max_result_tokens")),
        ({"wholesale_tokens": None, "headroom_percentage": 1.0}, None, TEXT[100_000], ("wholesale", "max_result_tokens")),
        ({"plaintext": "wholesale", "wholesale_tokens": 1}, None, TEXT[100_000], ("wholesale", "max_result_tokens")),
        # A fixed mode: before the tools that are there; `truncate` before `plaintext`.
        ({"mode": "variables"}, [], ROWS, ("variables", "max_result_tokens")),
        ({"mode": "artifact"}, [], ROWS, ("artifact", "max_result_tokens")),
        ({"mode": "artifact"}, None, ROWS, ("artifact", "max_result_tokens")),
        ({"mode": "auto"}, [], ROWS, ("truncate", "max_result_tokens")),
        ({"mode": "auto"}, ["artifact_read"], ROWS, ("artifact", "max_result_tokens")),
        ({"mode": "truncate", "plaintext": "artifact"}, None, TEXT[100_000], ("truncate", "max_result_tokens")),
        ({"mode": "truncate", "plaintext": "wholesale"}, None, TEXT[100_000], ("truncate", "max_result_tokens")),
        ({"mode": "variables", "plaintext": "artifact"}, [], TEXT[100_000], ("truncate", "max_result_tokens")),
        ({"mode": "artifact", "plaintext": "artifact"}, [], TEXT[100_000], ("artifact", "max_result_tokens")),
        ({"mode": "variables", "envelope_form": "references"}, None, ROWS, ("variables", "max_result_tokens")),
        # What cannot be stored is truncated, whatever the mode.
        ({"mode": "artifact", "max_artifact_bytes": 1_000}, None, ROWS, ("truncate", "max_artifact_bytes")),
        ({"mode": "variables", "max_artifact_bytes": 1_000}, None, ROWS, ("truncate", "max_artifact_bytes")),
        # Off is off.
        ({"enabled": False, "max_result_tokens": 1, "mode": "truncate"}, None, ROWS, ("inline", "disabled")),
    ],
)  # fmt: skip
def test_the_winner_of_two_knobs(
    counting: Engine, knobs: dict[str, Any], tools: list[str] | None, output: str, expected: tuple[str, str]
) -> None:
    result = opened(counting, tools, **knobs).process(output, tool="t")
    assert (result.route, result.reason) == expected


@pytest.mark.parametrize("mode", ["auto", "variables", "artifact"])
def test_an_error_is_truncated_whatever_the_mode(counting: Engine, mode: str) -> None:
    session = opened(counting, mode=mode, plaintext="artifact", max_result_tokens=1)
    for output in (ROWS, TEXT[100_000]):
        result = session.process(output, tool="t", is_error=True)
        assert (result.route, result.reason) == ("truncate", "error") and result.tokens <= 2_500


def test_an_error_passes_whole_over_every_gate_where_errors_are_inline(counting: Engine) -> None:
    session = opened(counting, errors="inline", mode="artifact", max_result_tokens=1, max_threshold_bytes=4_096)
    assert session.process(ROWS, tool="t", is_error=True).content == ROWS


def test_the_envelope_bounds_the_preview(counting: Engine) -> None:
    session = opened(counting, preview_tokens=5_000, envelope_tokens=200)
    assert session.process(ROWS, tool="t").tokens <= 200


def test_the_envelope_does_not_bound_truncation(counting: Engine) -> None:
    session = opened(counting, [], truncate_tokens=5_000, envelope_tokens=100)
    assert 4_000 < session.process(ROWS, tool="t").tokens <= 5_000


def test_a_tools_knob_wins_over_the_sessions_and_the_sessions_over_the_engines(sandbox: Sandbox) -> None:
    with Engine("sqlite:///:memory:", interpreter=sandbox, policy=Policy(enabled=False)) as engine:
        assert engine.session("s").process(ROWS, tool="t").reason == "disabled"
        session = engine.session("t", policy=Policy(per_tool={"special": {"mode": "truncate"}}))
        assert session.process(ROWS, tool="t").route == "variables"
        assert session.process(ROWS, tool="special").route == "truncate"


def test_who_may_instruct_the_model_is_said_per_tool(counting: Engine) -> None:
    told = {"a": 1, "display_instructions_for_model": "Sum by month."}
    session = opened(counting, per_tool={"special": {"trusted_instructions": "all"}, "mapped": {"mapper": "{a} + ."}})
    assert session.process(told, tool="usual").instructions is None
    assert session.process(told, tool="special").instructions == "Sum by month."


# The session's own tools


def test_knobs_of_an_own_tool_hold_for_its_replies(sandbox: Sandbox) -> None:
    per_tool = {
        "artifact_read": {"reply_tokens": 300},
        "code_interpreter": {"run_seconds": 0.5},
        "store_artifact": {"max_artifact_bytes": 1_000},
    }
    tools = [*per_tool, "artifact_grep"]
    with Engine("sqlite://", policy=Policy(per_tool=per_tool), interpreter=sandbox) as engine:
        session = engine.session("s", tools=tools)
        session.process([{"id": n, "name": f"user {n}"} for n in range(5_000)], tool="users")
        assert 200 < session.call("artifact_read", {"artifact_id": "users"}).tokens <= 300
        assert session.call("artifact_grep", {"artifact_id": "users", "pattern": "user"}).tokens > 300
        endless = session.call("code_interpreter", {"code": "while True:\n    pass"})
        assert endless.is_error and "after 0.5 s" in endless.text
        refused = session.call("store_artifact", {"name": "n", "value": "x" * 5_000})
        assert refused.is_error and "max_artifact_bytes=1,000" in refused.text
        assert session.store_artifact("x" * 5_000).size_bytes == 5_000  # the host's, under the session's policy
