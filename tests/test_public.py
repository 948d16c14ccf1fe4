"""The public interface: names, signatures, errors."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import byref
from byref import ByrefError, ConfigurationError, Engine, InvalidId, Policy, Session, StorageFailure, ToolError
from byref_sandbox import Sandbox


def test_the_public_names_are_these_and_no_more() -> None:
    assert sorted(byref.__all__) == byref.__all__ == dir(byref)
    for name in byref.__all__:
        assert getattr(byref, name).__doc__, name
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = byref.nothing_of_the_kind
    assert set(byref.db.__all__) >= {"upgrade", "downgrade", "check", "current", "include_name"}


PINNED = {
    Engine: "(url='sqlite:///byref.db', *, create=None, policy=None, blobs=None, interpreter=None, jail='full', counter=None, models=None, schema=None, durability='normal', telemetry=None, modules=(), functions=())",
    Engine.session: "(id, *, tenant='default', model=None, context_window=None, policy=None, tools=None, functions=None, db=None, create=True)",
    Engine.sessions: "(tenant='default', *, after=None, limit=None)",
    Engine.pending: "(tenant='default', *, limit=None)",
    Engine.tenants: "(*, after=None, limit=None)",
    Engine.delete_session: "(id, *, tenant='default')",
    Engine.delete_tenant: "(tenant)",
    Session.process: "(output, *, tool, call_id=None, arguments=None, is_error=False)",
    Session.call: "(name, arguments, *, call_id=None)",
    Session.owns: "(name)",
    Session.tools: "(format='openai')",
    Session.resolve: "(arguments, schema=None, *, tool=None, call_id=None)",
    Session.record_usage: "(usage, *, request_id=None, context=True, through=None)",
    Session.on_compaction: "(tokens)",
    Session.context_tokens: "()",
    Session.explain: "(call_id_or_step)",
    Session.variable: "(name)",
    Session.store_artifact: "(value, *, name=None, content_type=None, preview_chars=200)",
    Session.get_artifact: "(id_pointer_or_name)",
    Session.run: "(code)",
    Session.share: "(artifact, with_)",
    Session.end: "()",
    Session.close: "()",
}


@pytest.mark.parametrize("member", PINNED, ids=lambda member: member.__qualname__)
def test_signatures_are_pinned(member: object) -> None:
    signature = inspect.signature(member)  # type: ignore[arg-type]
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values() if p.name != "self"]
    assert str(signature.replace(parameters=bare, return_annotation=signature.empty)) == PINNED[member]  # type: ignore[index]


def test_names_of_sessions_are_there() -> None:
    for name in ("usage", "ledger", "history", "reminder", "variables", "artifacts"):
        assert callable(getattr(Session, name))
    for name in (
        "content",
        "route",
        "reason",
        "step",
        "envelope",
        "artifacts",
        "variables",
        "instructions",
        "tokens",
        "original_tokens",
        "is_error",
    ):
        assert name in byref.Result.__dataclass_fields__
    assert isinstance(byref.Result.tokens_saved, property)


def test_errors_are_one_tree_for_the_host_and_one_for_the_model() -> None:
    for name in (
        "ArtifactMissing",
        "ConfigurationError",
        "InvalidId",
        "QuotaExceeded",
        "SchemaMismatch",
        "SessionGone",
        "StorageFailure",
        "TransactionConflict",
    ):
        error = getattr(byref, name)
        assert issubclass(error, ByrefError)
        assert str(error()) == error.__doc__
    assert issubclass(ConfigurationError, ValueError) and issubclass(InvalidId, ValueError)
    assert not issubclass(ToolError, ByrefError)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"blobs": "s3://x"}, "expected a store, as FileStore"),
        ({"policy": {}}, "expected a byref.Policy"),
        ({"counter": 5}, "counter=5: expected a byref.TokenCounter"),
        ({"counter": 0}, "counter=0: expected a byref.TokenCounter"),
        ({"counter": byref.CharCounter}, "CharCounter'>: expected a byref.TokenCounter"),
        ({"telemetry": True}, "telemetry=True: expected a byref.Telemetry"),
        ({"telemetry": False}, "telemetry=False: expected a byref.Telemetry"),
        ({"interpreter": Sandbox}, "not the class 'Sandbox'"),
        ({"interpreter": "tcp://scheduler:8786"}, "another byref.Interpreter, not a value of type 'str'"),
        ({"modules": ["os"]}, "the module 'os' cannot be allowed: it comes with Python"),
        pytest.param(
            {"modules": ["requests"]}, "'requests' cannot be allowed: .* reaches the network", marks=pytest.mark.slow
        ),
        ({"modules": "humanize"}, "expected a list of names"),
        ({"modules": 5}, "expected a list of names"),
        ({"modules": ["humanize"], "interpreter": Sandbox()}, "has modules of its own"),
        ({"url": "nonsense"}, "that is no database URL"),
        ({"url": "mysql://x/y"}, "mysql"),
        ({"url": "sqlite:////no/such/folder/b.db"}, "the folder '/no/such/folder'"),
    ],
)
def test_engines_that_cannot_be_made_say_why(tmp_path: Path, arguments: dict[str, object], error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        Engine(**({"url": f"sqlite:///{tmp_path}/b.db"} | arguments))  # type: ignore[arg-type]


def test_a_sandbox_is_an_interpreter() -> None:
    with Sandbox() as sandbox:
        assert isinstance(sandbox, byref.Interpreter)


def test_what_is_no_boundary_is_said_to_be_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Engine(f"sqlite:///{tmp_path}/b.db"):
        assert "boundary" not in caplog.text
    with Engine(f"sqlite:///{tmp_path}/b.db", jail="language-only"):
        assert "jail='language-only' is no security boundary" in caplog.text
    for described in (Engine, Sandbox):
        assert "no security boundary" in " ".join(str(described.__doc__).split())


def test_a_wrong_jail_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="jail='none'"):
        Engine(f"sqlite:///{tmp_path}/b.db", jail="none")  # type: ignore[arg-type]


def test_an_unreachable_server_is_a_storage_failure() -> None:
    with pytest.raises(StorageFailure) as caught:
        Engine("postgresql://user:secret@127.0.0.1:1/x?connect_timeout=1")
    assert "secret" not in str(caught.value) and "127.0.0.1" in str(caught.value)


def test_create(tmp_path: Path, sandbox: Sandbox) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    with pytest.raises(byref.SchemaMismatch, match="byref db upgrade"):
        Engine(url, create=False)
    with Engine(url, interpreter=sandbox) as engine:
        assert engine.policy == Policy()
        assert engine.sandbox is sandbox
        assert "new.db" in engine.url
    with Engine(url, create=False, interpreter=sandbox) as engine:
        assert engine.sessions() == []
    assert sandbox.run("1").value == 1


def test_a_session_names_itself(local: Engine, tenant: str) -> None:
    assert repr(local.session("chat 42", tenant=tenant)) == f"Session('chat 42', tenant={tenant!r})"
