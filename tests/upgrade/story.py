"""What a database of a released revision holds: one of everything, written by what is public in every release.

What a later release brings is told beside it. `OUTPUTS`, `KEPT` and the names are never changed: databases that were
written are given the same outputs again.
"""

from __future__ import annotations

import base64
import io
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import insert

import byref
from byref.adapters.common.items import Items
from byref.db.tables import BlobRow, FrameRow
from byref.stores import FileStore

PLAIN, HOSTILE = "acme", "Globex \\0 'q' \"ü☃\U0001f600 %_ ../../etc ; DROP TABLE byref_ledger--"
"""The tenants: the bytes of the one are in SQL, those of the other in files."""
STRANGE = "\\u0041\\ \0 \ud800 \U0001f600 '\"; DROP TABLE byref_ledger; -- %s {0} $x"
"""What may be in any text: NUL, a lone surrogate, escapes, quotes, a percent sign, braces."""
TOOLS = (
    "code_interpreter",
    "artifact_jq",
    "artifact_grep",
    "artifact_read",
    "artifact_sql",
    "list_artifacts",
    "get_artifact",
    "store_artifact",
)
LONG = timedelta(days=20_000)
"""Artifacts that expire, but not while this release is upgraded by anybody."""
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
ABANDONED = ".0123456789abcdef0123456789abcdef.json.0123456789abcdef.tmp"
"""A draft that a killed writer has left in the store of files."""


def records(count: int, of: str) -> list[dict[str, Any]]:
    return [{"id": n, "of": of, "name": f"{of} {n % 7}", "tags": [n % 3, None, True]} for n in range(count)]


def lines(count: int) -> str:
    return "".join(f"{n:06} the quick brown fox jumps over the lazy dog\n" for n in range(count))


def _picture(data: bytes) -> dict[str, Any]:
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(data).decode()}
    return {"type": "image", "source": source}


OUTPUTS: dict[str, Callable[[], Any]] = {
    "small": lambda: {"ok": True, "n": 1},
    "nothing": lambda: "",
    "users": lambda: {
        "users": records(2_500, "user"),
        "pagination": {"next": "c2", "pages": [1, 2, 3]},
        "total": 2_500,
    },
    "frames": lambda: records(60_000, "row"),
    "json text": lambda: json.dumps(records(3_000, "text"), indent=1),
    "long text": lambda: lines(60_000),
    "some text": lambda: lines(700),
    "an error": lambda: "Traceback: " + lines(3_000),
    "strange": lambda: [{"id": n, STRANGE: STRANGE, "big": 2**70 + n} for n in range(400)],
    "image": lambda: [{"type": "text", "text": "a picture"}, _picture(PNG)],
    "picture": lambda: [_picture(PNG + bytes(9_000))],
    "shown": lambda: {"display_instructions_for_model": "Show a table.", "rows": records(2_000, "shown")},
    "brief": lambda: records(1_000, "brief"),
    "late": lambda: records(1_100, "late"),
    "doomed": lambda: records(1_200, "doomed"),
}

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("artifact_jq", {"artifact_id": "$users", "expression": "map(.id) | add"}),
    ("artifact_grep", {"artifact_id": "$users", "pattern": '"id":24[0-9]{2}'}),
    ("artifact_read", {"artifact_id": "$users", "start_line": 3, "end_line": 5}),
    ("artifact_sql", {"query": "SELECT count(*) AS n, max(id) AS last FROM users"}),
    ("list_artifacts", {}),
    ("store_artifact", {"name": "model's note", "content": "remember the milk"}),
    ("artifact_read", {"artifact_id": "art_none"}),
)
CODE = (
    "import math\nfrom collections import Counter\n"
    "from decimal import Decimal\nfrom datetime import datetime, timezone\n"
    "import pandas as pd\n"
    "total = sum(row['id'] for row in users)\n"
    "kinds = Counter(row['name'] for row in users)\n"
    "seen = {1, 2, 3}\npair = (Decimal('1.10'), datetime(2026, 1, 2, tzinfo=timezone.utc))\n"
    "table = pd.DataFrame(users).head(50)\n"
    "odd = [row for row in users if row['id'] % 2]\n"
    "def double(n):\n    return 2 * n\n"
    "class Point:\n    def __init__(self, x):\n        self.x = x\n    def far(self):\n        return double(self.x)\n"
    "total",
    "undefined_name + 1",
    "total = total + 1",
)
KEPT = "[double(21), Point(4).far(), sorted(seen), str(pair), len(table), math.floor(2.5), kinds['user 1'], total, len(odd)]"
"""Code over what `CODE` left."""


def arrived(name: str) -> Iterator[str]:
    """The same output as a stream."""
    text: str = OUTPUTS[name]()
    yield from (text[at : at + 50_000] for at in range(0, len(text), 50_000))


class Told:
    """What was given under which call id, and what the model read: to be given again."""

    def __init__(self) -> None:
        self.outputs: list[dict[str, Any]] = []
        self.replies: list[dict[str, Any]] = []
        self.expired: list[dict[str, str]] = []

    def process(self, session: byref.Session, output: str, call_id: str | None, tool: str, **more: Any) -> byref.Result:
        result = session.process(OUTPUTS[output](), tool=tool, call_id=call_id, **more)
        if call_id:
            where = {"tenant": session.tenant, "session": session.id}
            given = {"output": output, "call_id": call_id, "tool": tool, **more}
            self.outputs.append({**where, **given, "content": result.content, "step": result.step})
        return result


def tell(url: str, folder: Path) -> Told:
    """Fill a migrated database, and a folder with the bytes of one tenant."""
    told = Told()
    with byref.Engine(url) as engine:
        _everyday(engine, told, PLAIN)
        _routes(engine, told, PLAIN)
        _ends(engine, told, PLAIN)
    with byref.Engine(url, blobs=FileStore(folder)) as engine:
        _everyday(engine, told, HOSTILE)
        _routes(engine, told, HOSTILE)
        _ends(engine, told, HOSTILE)
        _half_done(engine, folder)
    return told


def _everyday(engine: byref.Engine, told: Told, tenant: str) -> None:
    """A conversation: outputs of each kind, tools, code with what it leaves, references, usage."""
    policy = byref.Policy(ttl=LONG, ledger_ttl=LONG)
    chat = engine.session(
        f"chat {tenant}", tenant=tenant, model="claude-sonnet-4-5", context_window=200_000, policy=policy, tools=TOOLS
    )
    told.process(chat, "small", "call_1", "ping", arguments={"host": "a"})
    told.process(chat, "users", "call_2", "list users", arguments='{"page": 1}')
    told.process(chat, "users", "call_2b", "list users")  # the same bytes again
    told.process(chat, "small", "call_2", "list users")  # the same call id, another output
    told.process(chat, "json text", "call_3", "as_text")
    told.process(chat, "long text", "call_4", "log")
    told.process(chat, "an error", "call_5", "fails", is_error=True)
    told.process(chat, "image", "call_6", "draw")
    told.process(chat, "shown", "call_7", "shown")
    told.process(chat, "nothing", None, "nothing")
    chat.process(arrived("some text"), tool="stream")
    for number, (name, arguments) in enumerate(CALLS):
        chat.call(name, arguments, call_id=f"own_{number}")
    for number, code in enumerate(CODE):
        chat.call("code_interpreter", {"code": code}, call_id=f"code_{number}")
    chat.run("by_host = len(users)")
    chat.resolve(
        {"ids": {"$var": "users", "jq": "[.[0].id, .[-1].id]"}, "all": "$pagination"}, tool="mail", call_id="call_8"
    )
    chat.record_usage({"prompt_tokens": 9_000, "completion_tokens": 300}, request_id="req_1")
    chat.record_usage(
        {"input_tokens": 5, "output_tokens": 7, "cache_read_input_tokens": 3}, request_id="req_2", context=False
    )
    chat.on_compaction(4_000)
    told.process(chat, "strange", STRANGE, STRANGE, arguments={STRANGE: STRANGE})
    told.process(chat, "frames", "c" * 1_500, "rows")
    stored = chat.store_artifact(OUTPUTS["users"](), name=STRANGE)
    chat.store_artifact(PNG, name="dot.png", content_type="image/png")
    chat.store_artifact(io.BytesIO(b"%PDF-1.4 " + b"x" * 9_000), name="paper.pdf", content_type="application/pdf")
    chat.store_artifact("a note\n", name="note")
    other = engine.session("other \u2603", tenant=tenant, context_window=100_000, policy=policy)
    chat.share(stored, other.id)
    for number, (name, arguments) in enumerate(CALLS[:3]):  # of a turn that is not over: they are replayed
        reply = chat.call(name, arguments, call_id=f"again_{number}")
        where = {"tenant": tenant, "session": chat.id, "name": name, "arguments": arguments}
        told.replies.append({**where, "call_id": f"again_{number}", "content": reply.content})
    usage = {
        "input_tokens": 700,
        "output_tokens": 90,
        "cache_creation_input_tokens": 400,
        "cache_read_input_tokens": 100,
    }
    other_chat = engine.session(other.id, tenant=tenant, model="claude-sonnet-4-5")
    told.process(other_chat, "small", "call_1", "ping")
    other_chat.record_usage(usage, request_id="req_1")
    items = Items(engine, "items", tenant)
    items.append("chat", ["{}", STRANGE, "x" * 5_000])
    items.append(f"files/{tenant[:20]}", ["v0"])


def _routes(engine: byref.Engine, told: Told, tenant: str) -> None:
    """A conversation under each preset, and what only other knobs bring about."""
    for preset in ("references", "pointers", "previews", "variables"):
        policy = getattr(byref.Policy, preset)(ttl=LONG)
        session = engine.session(f"preset {preset}", tenant=tenant, context_window=150_000, policy=policy)
        for name in ("users", "long text", "some text", "image"):
            told.process(session, name, f"call {name}", name)
    bare = engine.session("bare", tenant=tenant, context_window=150_000, policy=byref.Policy(ttl=LONG), tools=())
    for name in ("users", "long text", "image"):
        told.process(bare, name, f"call {name}", name)
    narrow = engine.session(
        "narrow", tenant=tenant, context_window=3_000, policy=byref.Policy(ttl=None, plaintext="wholesale")
    )
    for name in ("some text", "users", "long text", "picture"):
        told.process(narrow, name, f"call {name}", name)


def _ends(engine: byref.Engine, told: Told, tenant: str) -> None:
    """What expired and was swept, what expired since, what ended, what is kept, what idles."""
    brief = engine.session(
        "brief", tenant=tenant, context_window=99_000, policy=byref.Policy(ttl=timedelta(seconds=0.2))
    )
    swept = told.process(brief, "brief", None, "brief tool", arguments={"page": 7})
    brief.store_artifact("a passing note", name=STRANGE)
    brief.run("left = len(brief_tool)")
    time.sleep(0.5)
    engine.sweep(grace=timedelta(0))
    told.expired += [{"tenant": tenant, "session": "brief", "id": artifact.id} for artifact in swept.artifacts]
    told.process(brief, "late", None, "late tool")
    ended = engine.session("ended", tenant=tenant, context_window=99_000, policy=byref.Policy(ttl=LONG))
    told.process(ended, "doomed", None, "doomed")
    ended.keep(ended.store_artifact(records(900, "kept"), name="kept"))
    ended.end()
    idle = engine.session("idle", tenant=tenant, context_window=99_000, policy=byref.Policy(ttl=LONG, ledger_ttl=LONG))
    idle.process("hello", tool="greet")


def _half_done(engine: byref.Engine, folder: Path) -> None:
    """What a crash or a store that was away has left: a staged blob, an object to discard, a draft."""
    now = datetime.now(UTC)
    same = {"tenant": PLAIN, "size_bytes": 3}
    staged = {**same, "key": "staged", "digest": bytes(32), "line_count": 1, "staged_at": now}
    with engine.database.engine.begin() as connection:
        row = connection.execute(insert(BlobRow).values(**staged).returning(BlobRow.id)).scalar_one()
        frame = {"blob_id": row, "number": 0, "byte_offset": 0, "first_line": 1, "codec": "none", "data": b"abc"}
        connection.execute(insert(FrameRow).values(**same, **frame))
    gone = engine.session("gone", tenant=HOSTILE, context_window=99_000)
    gone.process(records(5_000, "gone"), tool="gone")
    away = folder.with_name("away")
    folder.rename(away)
    with suppress(byref.StorageFailure):
        engine.delete_session("gone", tenant=HOSTILE)
    away.rename(folder)
    tenant_folder = next(path for path in folder.iterdir() if path.is_dir())
    draft = tenant_folder / ABANDONED
    draft.write_bytes(b"half of it")
    os.utime(draft, (1_700_000_000, 1_700_000_000))
