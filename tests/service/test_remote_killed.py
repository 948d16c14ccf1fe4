"""`byref serve` is killed while code waits for a client, which polls over sockets: what was answered is not asked again, nothing is lost."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from contextlib import suppress

import httpx
import pytest
from serving import serving

import byref
from byref import db
from byref.service import auth

CALLS = 12
CODE = f"""
total = 0
for n in range({CALLS}):
    total += double(n)
total
"""


def worker(base: list[str], head: dict[str, str], seen: Counter[int], over: threading.Event) -> None:
    """Answer calls, whatever server there is; each call is worked at once."""
    known: dict[str, int] = {}
    with httpx.Client(headers=head, timeout=5) as client:
        while not over.is_set():
            with suppress(httpx.HTTPError):
                asked = client.post(f"{base[0]}/v1/calls/take", json={"worker": "w", "wait_seconds": 0.5})
                for call in asked.json() if asked.status_code == 200 else ():
                    if call["id"] not in known:
                        seen[call["arguments"]["n"]] += 1
                        known[call["id"]] = 2 * call["arguments"]["n"]
                    client.post(f"{base[0]}/v1/calls/{call['id']}/answer", json={"result": known[call["id"]]})
                continue
            time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("kills", [2, 25])
def test_servers_are_killed_while_a_client_answers(empty_url: str, kills: int) -> None:
    db.upgrade(empty_url)
    with byref.Engine(empty_url, jail="language-only") as engine:
        token = auth.create(engine.database, tenant="acme", name="t", rights=auth.RIGHTS)
    head, draw = {"Authorization": f"Bearer {token}"}, random.Random(kills)
    base, seen, over = [""], Counter[int](), threading.Event()
    thread = threading.Thread(target=worker, args=(base, head, seen, over))
    function = {
        "name": "double",
        "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    }
    given = {"name": "code_interpreter", "arguments": {"code": CODE}, "call_id": "c1"}
    text = ""
    try:
        for life in range(kills + 1):
            with serving(empty_url) as (process, base[0]), httpx.Client(headers=head, timeout=60) as client:
                client.put(f"{base[0]}/v1/sessions/chat", json={"functions": [function]}).raise_for_status()
                if not thread.is_alive():
                    thread.start()
                if life < kills:
                    killer = threading.Timer(draw.uniform(0.05, 0.6), process.kill)
                    killer.start()
                with suppress(httpx.HTTPError):
                    done = client.post(f"{base[0]}/v1/sessions/chat/call", json=given)
                    assert done.status_code == 200, done.text
                    text = done.json()["text"]
                if life < kills:
                    killer.join()
    finally:
        over.set()
        if thread.ident:
            thread.join()
    assert json.loads(text.splitlines()[0]) == sum(2 * n for n in range(CALLS))
    assert seen == Counter(range(CALLS)), "each call was made once"
