"""byref's artifact service for Google ADK, compared operation by operation with ADK's own in memory."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from google.adk.artifacts import BaseArtifactService, InMemoryArtifactService
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st

import byref
from byref import Engine, Policy
from byref.adapters.adk import ByrefArtifactService, session_name

_apps = itertools.count()
HERE = {"app_name": "app", "user_id": "ann", "session_id": "s1"}


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine("sqlite:///:memory:", jail="language-only") as made:
        yield made


def part_of(data: bytes | str, mime_type: str = "application/pdf") -> types.Part:
    return types.Part(text=data) if isinstance(data, str) else types.Part.from_bytes(data=data, mime_type=mime_type)


names = st.sampled_from(
    ["a", "a/b", "a/b/c.txt", "user:a", "user:a/b", "ünï 🎉", "versions", "0", "", "x" * 300, "%2F"]
)
people = st.sampled_from(["ann", "bob"])
sessions = st.sampled_from(["s1", "s2", "user"])
parts = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=40).map(lambda text: types.Part(text=text)),
    st.builds(
        part_of,
        st.one_of(
            st.binary(min_size=1, max_size=40),
            st.sampled_from([b"\xff\xfea\0", b"\xef\xbb\xbfx", b'{"a": 1}', b"%PDF-1"]),
        ),
        st.sampled_from(
            ["text/plain", "application/json", "image/png", "application/octet-stream", "x/y; z=1", "Text/CSV"]
        ),
    ),
    st.builds(
        lambda uri: types.Part(file_data=types.FileData(file_uri=uri, mime_type="text/plain")),
        st.sampled_from(
            ["gs://b/o", "https://example.com/x", "artifact://apps/app/users/ann/artifacts/user:a/versions/0"]
        ),
    ),
    st.just(types.Part(inline_data=types.Blob(mime_type="application/octet-stream", data=b""))),
    st.just(types.Part(inline_data=types.Blob(mime_type="image/png", data=b"\x89PNG", display_name="dot.png"))),
    st.just(types.Part(text="thought", thought=True, thought_signature=b"\xff\0")),
)
metadata = st.one_of(st.none(), st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2))
steps = st.one_of(
    st.tuples(st.just("save_artifact"), people, sessions, names, parts, metadata),
    st.tuples(st.just("load_artifact"), people, sessions, names, st.none() | st.integers(-1, 3)),
    st.tuples(st.just("list_artifact_keys"), people, st.none() | sessions),
    st.tuples(st.just("delete_artifact"), people, sessions, names),
    st.tuples(st.just("list_versions"), people, sessions, names),
    st.tuples(st.just("list_artifact_versions"), people, sessions, names),
    st.tuples(st.just("get_artifact_version"), people, sessions, names, st.none() | st.integers(-1, 3)),
)


async def done(service: BaseArtifactService, app: str, step: tuple[Any, ...]) -> Any:
    """What a service answers, without what may differ between two: where the bytes are, and when they were saved."""
    kind, user, session, *rest = step
    given: dict[str, Any] = {"app_name": app, "user_id": user, "session_id": session}
    if rest:
        given["filename"] = rest[0]
    if kind == "save_artifact":
        given |= {"artifact": rest[1].model_copy(deep=True), "custom_metadata": rest[2]}
    elif kind in ("load_artifact", "get_artifact_version"):
        given["version"] = rest[1]
    try:
        answer = await getattr(service, kind)(**given)
    except InputValidationError as error:
        return type(error)
    if kind == "list_artifact_versions":
        return [one.model_copy(update={"canonical_uri": "", "create_time": 0}) for one in answer]
    if kind == "get_artifact_version" and answer is not None:
        return answer.model_copy(update={"canonical_uri": "", "create_time": 0})
    return answer


@settings(max_examples=30)
@given(script=st.lists(steps, max_size=25))
def test_it_answers_as_adks_own(engine: Engine, script: list[tuple[Any, ...]]) -> None:
    mine, theirs = ByrefArtifactService(engine), InMemoryArtifactService()
    app = f"app{next(_apps)}"

    async def work() -> None:
        for step in script:
            if step[0] == "save_artifact" and step[2] == "user" and not step[3].startswith("user:"):
                continue  # a name that ADK's reserves for itself
            assert await done(mine, app, step) == await done(theirs, app, step), step

    run(work())


def test_a_file_is_found_in_a_new_process_and_its_versions_say_what_they_are(sqlite_url: str) -> None:
    with Engine(sqlite_url) as engine:
        service = ByrefArtifactService(engine)
        assert (
            run(
                service.save_artifact(
                    **HERE, filename="a/b", artifact={"inlineData": {"data": "AAE=", "mimeType": "x/y"}}
                )
            )
            == 0
        )
        run(
            service.save_artifact(
                **HERE, filename="a/b", artifact=types.Part(text="two"), custom_metadata={"by": ["ann"]}
            )
        )
    with Engine(sqlite_url) as engine:
        service = ByrefArtifactService(engine)
        assert run(service.load_artifact(**HERE, filename="a/b", version=0)).inline_data.data == b"\0\1"
        first, second = run(service.list_artifact_versions(**HERE, filename="a/b"))
        assert (first.version, first.mime_type, second.custom_metadata) == (0, "x/y", {"by": ["ann"]})
        assert second.canonical_uri == "artifact://apps/app/users/ann/sessions/s1/artifacts/a/b/versions/1"
        assert second.create_time >= first.create_time > 1_700_000_000


def test_without_a_session_a_file_is_the_users_as_the_interface_says(engine: Engine) -> None:
    service = ByrefArtifactService(engine)
    alone = {"app_name": "alone", "user_id": "ann"}
    assert run(service.save_artifact(**alone, filename="notes.txt", artifact=types.Part(text="mine"))) == 0
    assert run(service.load_artifact(**alone, session_id="s9", filename="user:notes.txt")).text == "mine"
    assert run(service.load_artifact(**alone, session_id="s9", filename="notes.txt")) is None
    assert (
        run(service.list_artifact_keys(**alone))
        == run(service.list_artifact_keys(**alone, session_id="s9"))
        == ["user:notes.txt"]
    )


def test_references_are_followed_within_their_scope_and_not_in_circles(engine: Engine) -> None:
    service = ByrefArtifactService(engine)
    here = HERE | {"app_name": "refs"}

    def pointing(uri: str) -> types.Part:
        return types.Part(file_data=types.FileData(file_uri=f"artifact://apps/refs/users/{uri}"))

    own = "ann/sessions/s1/artifacts"
    run(service.save_artifact(**here, filename="data", artifact=types.Part(text="the data")))
    run(service.save_artifact(**here, filename="one", artifact=pointing(f"{own}/data/versions/0")))
    run(service.save_artifact(**here, filename="two", artifact=pointing(f"{own}/one/versions/0")))
    assert run(service.load_artifact(**here, filename="two")).text == "the data"
    run(service.save_artifact(**here, filename="circle", artifact=pointing(f"{own}/circle/versions/0")))
    with pytest.raises(InputValidationError, match="depth"):
        run(service.load_artifact(**here, filename="circle"))
    for elsewhere in (
        "bob/sessions/s1/artifacts/data/versions/0",
        "ann/sessions/s2/artifacts/data/versions/0",
        "nowhere",
    ):
        with pytest.raises(InputValidationError):
            run(service.save_artifact(**here, filename="out", artifact=pointing(elsewhere)))
    assert run(service.list_versions(**here, filename="out")) == []


def test_what_cannot_be_kept_is_refused_in_adks_words(engine: Engine) -> None:
    service = ByrefArtifactService(engine)
    good: dict[str, Any] = {**HERE, "filename": "f", "artifact": types.Part(text="x")}
    wrong: list[dict[str, Any]] = [
        {"artifact": types.Part()},
        {"app_name": ""},
        {"user_id": "../bob"},
        {"session_id": "a\0b"},
        {"filename": "a\0b"},
        {"filename": "x" * 600},
        {"filename": "\ud800"},
        {"custom_metadata": {"a": object()}},
    ]
    for change in wrong:
        with pytest.raises(InputValidationError):
            run(service.save_artifact(**(good | change)))
    with pytest.raises(byref.QuotaExceeded):
        run(
            ByrefArtifactService(engine, policy=Policy(max_artifact_bytes=10)).save_artifact(
                **(good | {"artifact": part_of(b"x" * 11)})
            )
        )
    assert run(service.list_artifact_keys(**HERE)) == []


def test_users_and_tenants_are_kept_apart_and_a_deleted_file_leaves_no_bytes(sqlite_url: str) -> None:
    with Engine(sqlite_url, jail="language-only") as engine:
        service = ByrefArtifactService(engine, tenant=lambda app, user: user.partition("@")[2])
        ann, bob = ({"app_name": "app", "user_id": user, "session_id": "s"} for user in ("ann@acme", "bob@acme"))
        big = part_of(bytes(range(256)) * 500)
        for who in (ann, bob):
            run(service.save_artifact(**who, filename="f", artifact=big))
        assert {info.id for info in engine.sessions("acme")} == {"app/ann@acme/s", "app/bob@acme/s"}

        def blobs() -> int:
            count: int = engine.database.read(
                lambda c: c.exec_driver_sql("SELECT count(*) FROM byref_blobs").scalar_one()
            )
            return count

        assert blobs() == 1
        run(service.delete_artifact(**ann, filename="f"))
        assert run(service.list_artifact_keys(**ann)) == [] and run(service.load_artifact(**bob, filename="f")) == big
        assert blobs() == 1
        engine.delete_session(session_name("app", "bob@acme", "s"), tenant="acme")
        assert run(service.list_artifact_keys(**bob)) == [] and blobs() == 0
        assert run(service.save_artifact(**ann, filename="f", artifact=big)) == 0
        assert byref.db.verify(sqlite_url, deep=True) == []


def test_what_is_saved_does_not_expire(sqlite_url: str) -> None:
    with Engine(sqlite_url, policy=Policy(ttl=timedelta(milliseconds=1)), jail="language-only") as engine:
        service = ByrefArtifactService(engine, policy=Policy(ttl=timedelta(seconds=5)))
        run(service.save_artifact(**HERE, filename="f", artifact=types.Part(text="still here")))
        kept = engine.session(session_name(**HERE)).artifacts()[0]
        assert kept.is_kept and kept.expires_at is None and kept.name == "f"
        engine.sweep()
        assert run(service.load_artifact(**HERE, filename="f")).text == "still here"


SAVER = """
import asyncio, json, sys
from byref import Engine
from byref.adapters.adk import ByrefArtifactService
from google.genai import types
engine = Engine(sys.argv[1])
service = ByrefArtifactService(engine)
go()
async def save(n):
    part = types.Part(text=f"{sys.argv[2]} {n}")
    return await service.save_artifact(app_name="app", user_id="ann", session_id="s1", filename="f", artifact=part)
async def work():
    return [await save(n) for n in range(10)] + await asyncio.gather(*(save(n) for n in range(10, 15)))
print(json.dumps(asyncio.run(work())))
engine.close()
"""


def saved(url: str) -> list[int]:
    """What `SAVER` prints, in this process."""
    with Engine(url, jail="language-only") as engine:
        service = ByrefArtifactService(engine)

        async def save(n: int) -> int:
            return await service.save_artifact(**HERE, filename="f", artifact=types.Part(text=f"text {n}"))

        async def work() -> list[int]:
            return [await save(n) for n in range(10)] + await asyncio.gather(*(save(n) for n in range(10, 15)))

        return asyncio.run(work())


@pytest.mark.parametrize("who", ["engines", pytest.param("processes", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_versions_have_no_holes_whoever_saves_at_once(
    sqlite_url: str, race: Callable[..., list[str]], who: str
) -> None:
    if who == "processes":
        printed = [json.loads(one) for one in race(2, SAVER, sqlite_url, "text")]
    else:
        with ThreadPoolExecutor() as pool:
            printed = list(pool.map(saved, [sqlite_url] * 2))
    numbers = [number for one in printed for number in one]
    assert sorted(numbers) == list(range(30))
    with Engine(sqlite_url, jail="language-only") as engine:
        service = ByrefArtifactService(engine)
        assert run(service.list_versions(**HERE, filename="f")) == list(range(30))
        assert all(run(service.load_artifact(**HERE, filename="f", version=n)).text for n in range(30))


@pytest.mark.parametrize("mime_type", ["image/png", "application/octet-stream"])
@pytest.mark.parametrize("data", [None, b""])
def test_what_has_no_bytes_comes_back_as_from_memory(engine: Engine, mime_type: str, data: bytes | None) -> None:
    part = types.Part(inline_data=types.Blob(mime_type=mime_type, data=data))
    here = {**HERE, "app_name": f"empty {mime_type} {data!r}".replace("/", "-")}

    async def back(service: BaseArtifactService) -> types.Part | None:
        await service.save_artifact(**here, filename="f", artifact=part)
        return await service.load_artifact(**here, filename="f")

    assert run(back(ByrefArtifactService(engine))) == run(back(InMemoryArtifactService()))


@pytest.mark.parametrize("session_id", ["user", " user "])
def test_a_session_named_as_the_users_files_is_refused_as_in_memory(engine: Engine, session_id: str) -> None:
    service, here = ByrefArtifactService(engine), {**HERE, "session_id": session_id}
    with pytest.raises(InputValidationError, match="reserved value 'user'"):
        run(service.save_artifact(**here, filename="f", artifact=types.Part(text="x")))
    assert run(service.save_artifact(**here, filename=f"user:of {session_id!r}", artifact=types.Part(text="x"))) == 0


def test_a_name_that_cannot_be_kept_is_refused_by_its_own_name(engine: Engine) -> None:
    with pytest.raises(InputValidationError, match=r"^filename='xx") as refused:
        run(ByrefArtifactService(engine).save_artifact(**HERE, filename="x" * 600, artifact=types.Part(text="x")))
    assert "file:" not in str(refused.value)
