"""The inspector's pages: what they show to whom, and that strangers' texts are only ever text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from urllib.parse import urlencode

import httpx
import pytest
from service_kit import House
from sqlalchemy import text
from starlette.applications import Starlette
from starlette.routing import Mount

from byref import AsyncEngine
from byref.service import Grant, app
from byref.service.inspector import Inspector, OneTimeLink, chart
from byref.service.inspector.rendering import size
from byref.service.inspector.sight import REDACTED_AHEAD, Sight

HOSTILE = "<script>alert(1)</script>\"'><img src=//evil onerror=alert(1)>\u202e\x1b[31m{{7*7}}"
SECRET = "open sesame"
ORDERS = [{"id": n, "note": f"{SECRET} {HOSTILE}", "total": n % 500} for n in range(3_000)]


def look(house: House, token: str, *paths: str, service: Starlette | None = None) -> list[httpx.Response]:
    async def work() -> list[httpx.Response]:
        transport = httpx.ASGITransport(service or house.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://byref/inspect/") as client:
            client.cookies.set("byref_inspect", token)
            return [await client.get(path) for path in paths]

    return house.loop.run_until_complete(work())


def page(name: str, **query: object) -> str:
    return f"{name}?{urlencode(query)}" if query else name


def fill(house: House, tenant: str, name: str = "chat") -> str:
    """A session with an output by reference, code, an error, usage and a compaction, hostile wherever it can be."""

    async def work() -> None:
        session = await house.engine.session(name, tenant=tenant, model="claude-sonnet-5", context_window=20_000)
        await session.process(ORDERS, tool="orders", call_id="c1", arguments={"query": f"{SECRET} {HOSTILE}"})
        await session.process(f"{SECRET} {HOSTILE}", tool=HOSTILE, call_id=HOSTILE, is_error=True)
        await session.call("code_interpreter", {"code": f"len(orders), {SECRET!r}, {HOSTILE!r}"}, call_id="c2")
        await session.record_usage({"input_tokens": 3_000, "output_tokens": 40})
        await session.resolve(
            {"ids": {"$var": "orders", "jq": "map(select(.total > 498) | .id)"}}, tool="refund", call_id="c3"
        )
        await session.process("refunded", tool="refund", call_id="c3")
        await session.on_compaction(900)

    house.loop.run_until_complete(work())
    return name


class Tags(HTMLParser):
    """What a browser makes of a page: its elements, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def checked(answer: httpx.Response) -> Tags:
    """A page that runs and loads nothing but ours, whatever is on it."""
    assert answer.status_code == 200, answer.text[:2_000]
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff" and answer.headers["Cache-Control"] == "no-store"
    (nonce,) = set(re.findall(r"'nonce-([\w-]+)'", policy))
    tags = Tags(answer.text)
    for tag, attributes in tags.found:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], (tag, attributes)
        if tag in ("script", "link", "img"):
            goes = attributes.get("src") or attributes.get("href") or ""
            assert re.match(r"inspector\.(css|js|svg)\?v=|image\?", goes), attributes
        if tag == "script":
            assert attributes["nonce"] == nonce
        if tag in ("a", "form"):
            goes = attributes.get("href") or attributes.get("action") or ""
            assert re.match(r"(\./|[a-z]*)(\?|#|$)", goes), goes
    for character in "\u202e\x1b":
        assert character not in answer.text
    return tags


@pytest.mark.quick_cases(1)
def test_the_pages_of_a_session(house: House, tenant: str) -> None:
    name = fill(house, tenant)
    token = house.token(tenant, "inspect", "content")
    steps = [page("step", session=name, step=n) for n in range(1, 8)]
    listed, timeline, *each = look(house, token, "", page("session", session=name), *steps)
    assert "claude-sonnet-5" in checked(listed).text
    told = checked(timeline).text
    assert "its" in told and "max_result_tokens=7,000" in told and "7*7" in told and "900 of 20,000 tokens" in told
    texts = [checked(one).text for one in each]
    assert "What came" in texts[0] and "What the model read" in texts[0] and '"variables"' in texts[0]
    assert "\\u202e" in texts[1]
    assert "3000" in texts[2]
    assert "As written" in texts[5] and "$var" in texts[5]
    assert "compacted the conversation to 900" in texts[6]


def test_steps_lead_to_those_beside_them(house: House, tenant: str) -> None:
    name, token = fill(house, tenant), house.token(tenant, "inspect")
    first, second, last = look(house, token, *(page("step", session=name, step=n) for n in (1, 2, 7)))

    def beside(answer: httpx.Response) -> dict[str | None, str | None]:
        found = [attributes for tag, attributes in checked(answer).found if tag == "a" and "rel" in attributes]
        return {attributes["rel"]: attributes["href"] for attributes in found}

    links = {n: page("step", session=name, step=n) for n in (1, 2, 3, 6)}
    assert beside(first) == {"next": links[2]} and beside(last) == {"prev": links[6]}
    assert beside(second) == {"prev": links[1], "next": links[3]}


def test_without_the_right_no_content_is_seen(local_house: House, tenant: str) -> None:
    name = fill(local_house, tenant)
    paths = ["", page("session", session=name), *(page("step", session=name, step=n) for n in range(1, 8))]
    for has_content in (True, False):
        token = local_house.token(tenant, "inspect", *(["content"] if has_content else []))
        texts = [checked(one).text for one in look(local_house, token, *paths)]
        seen = [any(word in text for word in (SECRET, "map(select", "refunded")) for text in texts]
        assert seen == [False, True, True, True, True, False, True, True, False] if has_content else not any(seen)
        assert "max_result_tokens=7,000" in texts[1] and ("shapes and numbers only" in texts[1]) is not has_content


def test_totals_and_health(house: House, tenant: str) -> None:
    name, token = fill(house, tenant), house.token(tenant, "inspect")
    totals, health = look(house, token, page("ledger", session=name), "health")
    rows = [" ".join(row.split()) for row in re.findall(r"<tr data-row>(.*?)</tr>", totals.text)]
    texts = [re.sub(r"(<[^>]*>)+", " ", row).split() for row in rows]
    assert texts[0][:4] == ["claude-sonnet-5", "1", "3,000", "–"] and texts[0][-1].startswith("$0.0")
    assert texts[1][:5] == ["orders", "the", "host", "1", "–"]
    assert [one[:1] + one[2:4] for one in texts if one[0] == "code_interpreter"] == [["code_interpreter", "1", "–"]]
    assert ["inline", "2"] in [one[:2] for one in texts] and ["variables", "1"] in [one[:2] for one in texts]
    assert SECRET not in checked(totals).text
    said = " ".join(checked(health).text.split())
    for what in (
        f"Interpreter {type(house.engine.sandbox).__name__}",
        "as this byref has it",
        "Stored in the database",
    ):
        assert what.replace(" ", "") in said.replace(" ", ""), what


def test_who_may_not_look(local_house: House, tenant: str) -> None:
    name = fill(local_house, tenant)
    there = page("session", session=name)
    for token in ("", "byref_wrong", "\\", "x" * 5_000):
        (answer,) = look(local_house, token, there)
        assert answer.status_code == 401 and "claude" not in answer.text and 'type="password"' in answer.text
    (answer,) = look(local_house, local_house.token(tenant, "read", "chat", "admin", "content"), there)
    assert answer.status_code == 403 and "claude" not in answer.text
    (answer,) = look(local_house, local_house.token(f"{tenant}-other", "inspect", "content"), there)
    assert answer.status_code == 404 and "there is no session" in answer.text


def test_what_is_not_there(local_house: House, tenant: str) -> None:
    name, token = fill(local_house, tenant), local_house.token(tenant, "inspect")
    wrong = {
        "nothing": 404,
        "session": 404,
        page("step", session=name, step=99): 404,
        page("step", session=name, step="x"): 422,
        page("session", session=name, after="9" * 40): 422,
        page("", after="gone"): 404,
        page("session", session="\0"): 422,
    }
    for answer, status in zip(look(local_house, token, *wrong), wrong.values(), strict=True):
        assert answer.status_code == status and answer.headers["Content-Type"].startswith("text/html"), answer.url


def signed_in(house: House, token: str, **headers: str) -> httpx.Response:
    async def work() -> httpx.Response:
        transport = httpx.ASGITransport(house.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://byref/inspect/") as client:
            return await client.post("enter?to=session%3Fsession%3Da", data={"token": token}, headers=headers)

    return house.loop.run_until_complete(work())


def test_signing_in_gives_a_cookie_that_no_script_and_no_other_site_has(local_house: House, tenant: str) -> None:
    token = local_house.token(tenant, "inspect")
    answer = signed_in(local_house, token, Origin="https://byref")
    cookie = answer.headers["Set-Cookie"].lower()
    assert token.lower() in cookie
    assert all(word in cookie for word in ("httponly", "samesite=strict", "secure", "path=/inspect"))
    assert answer.headers["Refresh"] == "0; url=session?session=a" and token not in answer.text
    assert signed_in(local_house, token, Origin="https://evil").status_code == 403
    assert (
        signed_in(local_house, token, **{"Sec-Fetch-Site": "cross-site", "Origin": "https://byref"}).status_code == 403
    )
    wrong = signed_in(local_house, "byref_no", Origin="https://byref")
    assert wrong.status_code == 401 and "Set-Cookie" not in wrong.headers and "not valid" in wrong.text
    assert signed_in(local_house, "x" * 20_000, Origin="https://byref").status_code == 413


@pytest.mark.parametrize(
    "to", ["//evil", "https://evil", "javascript:alert(1)", "session?a\r\nSet-Cookie: a=b", "?\u202e", "step/../x"]
)
def test_nobody_is_sent_elsewhere(local_house: House, tenant: str, to: str) -> None:
    link = OneTimeLink(Grant(tenant, frozenset({"inspect"})))
    service = Starlette(routes=[Mount("/inspect", app=Inspector(local_house.engine, link))])
    (entered,) = look(local_house, "", f"{link.path}&{urlencode({'to': to})}", service=service)
    assert (
        re.fullmatch(r"0; url=(\./|session|)(\?[\w%:+=/-]*)?", entered.headers["Refresh"])
        and entered.headers["Set-Cookie"]
    )
    assert not re.search(r"\ba=b", entered.headers["Set-Cookie"])


def test_a_link_works_once(local_house: House, tenant: str) -> None:
    fill(local_house, tenant)
    link = OneTimeLink(Grant(tenant, frozenset({"inspect"})))
    service = Starlette(routes=[Mount("/inspect", app=Inspector(local_house.engine, link))])

    async def work() -> None:
        transport = httpx.ASGITransport(service)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/inspect/") as client:
            assert (await client.get("")).status_code == 401
            first = link.path
            assert (await client.get("enter?once=wrong")).status_code == 401
            entered = await client.get(first)
            assert entered.headers["Refresh"] == "0; url=./"
            assert (await client.get("")).status_code == 200
            assert (await client.post("")).status_code == 405
            client.cookies.clear()
            assert (await client.get("")).status_code == 401
            again = await client.get(first)
            assert again.status_code == 401 and "has been used" in again.text
            assert (await client.get("enter?once=")).status_code == 200
            assert (await client.get("")).status_code == 401

    local_house.loop.run_until_complete(work())


def test_a_host_redacts(local_house: House, tenant: str) -> None:
    name = fill(local_house, tenant)
    service = app(local_house.engine, redact=lambda text: text.replace("sesame", "[gone]"))
    token = local_house.token(tenant, "inspect", "content")
    paths = [page("session", session=name), page("step", session=name, step=1)]
    for one in look(local_house, token, *paths, service=service):
        assert "open [gone]" in checked(one).text and "sesame" not in one.text


def test_a_cut_does_not_hide_a_secret_from_redaction() -> None:
    seen = Sight(True, lambda text: text.replace("secret" * 100, "-")).text("x" * 15 + "secret" * 100, 20)
    assert seen is not None and seen.text == "x" * 15 + "-" and not seen.left_out
    long = Sight(True).text("x" * (REDACTED_AHEAD * 3), 20)
    assert long is not None and (len(long.text), long.left_out) == (20, REDACTED_AHEAD * 3 - 20)


CARD = "4111222233334444"


@pytest.mark.parametrize(
    "written",
    [
        json.dumps({"note": f"Card:\n{CARD}"}),
        json.dumps({"code": f"x = 'Card:\\t{CARD}'", "inner": json.dumps([f"\b{CARD}"])}),
        json.dumps(json.dumps(json.dumps(f"\N{SMILING FACE WITH SUNGLASSES}\n{CARD}"))),
        rf"C:\new\{CARD[0]}\u0031{CARD[2:]} \ud83d \U99999999",
        repr(f"\x00{CARD}\N{RIGHT-TO-LEFT OVERRIDE}"),
        "\\" * 3 + f"n{CARD}",
    ],
)
def test_what_escapes_stand_for_is_redacted(written: str) -> None:
    seen = Sight(True, lambda text: re.sub(r"\b\d{16}\b", "[card]", text)).text(written)
    assert seen is not None and "[card]" in seen.text and CARD[2:] not in seen.text


def test_a_text_keeps_its_escapes_where_they_hide_nothing() -> None:
    written = json.dumps(f"a\n\u00fc\\u00fc {CARD}")
    seen = Sight(True, lambda text: text.replace(CARD, "[card]")).text(written)
    assert seen is not None and seen.text == written.replace(CARD, "[card]")


@pytest.mark.parametrize("filling", [r"\u00fc", "secret"])
def test_a_text_that_becomes_shorter_does_not_show_where_it_was_cut(filling: str) -> None:
    """Decoded, or with much of it hidden, less than what a page shows may be left: behind it a secret may lack its end."""
    whole = "\\nsecret " + filling * (2 * REDACTED_AHEAD // len(filling))
    written = whole[: 20_000 + REDACTED_AHEAD - 300] + "BEGIN" + "Z" * 600 + "END"
    hide = re.compile(r"\bsecret\b|(?:secret){100}|BEGINZ+END")
    seen = Sight(True, lambda text: hide.sub("-", text)).text(written)
    assert seen is not None and "Z" not in seen.text and seen.left_out


def test_the_list_is_searched_and_turned(local_house: House, tenant: str) -> None:
    async def open_all() -> None:
        for n in range(60):
            await local_house.engine.session(f"chat-{n}", tenant=tenant)
        await local_house.engine.session("100%_SURE", tenant=tenant)

    local_house.loop.run_until_complete(open_all())
    token = local_house.token(tenant, "inspect")
    first, older, found, none = look(
        local_house, token, "", page("", after="chat-11"), page("", search="%_s"), page("", search="nobody")
    )
    names = lambda answer: re.findall(r'href="session\?session=([^"]+)"', answer.text)  # noqa: E731
    assert len(names(first)) == 50 and names(first)[:2] == ["100%25_SURE", "chat-59"] and "after=chat-11" in first.text
    assert names(older) == [f"chat-{n}" for n in range(10, -1, -1)] and 'rel="next"' not in older.text
    assert names(found) == ["100%25_SURE"] and not names(none)


@pytest.mark.parametrize("name", ["..", "a/b", "ü 🚗", "?#&=", "%2F", "a\nb", "'\"<", "x" * 512])
def test_any_id_has_a_link(local_house: House, tenant: str, name: str) -> None:
    async def work() -> None:
        await local_house.engine.session(name, tenant=tenant)

    local_house.loop.run_until_complete(work())
    token = local_house.token(tenant, "inspect")
    (listed,) = look(local_house, token, "")
    (there,) = {dict(attrs)["href"] for tag, attrs in checked(listed).found if tag == "a" and "session?" in str(attrs)}
    (shown,) = look(local_house, token, str(there))
    assert name in checked(shown).text


def test_the_chart_is_the_context_as_the_ledger_has_it(house: House, tenant: str) -> None:
    fill(house, tenant)
    engine: AsyncEngine = house.engine

    async def work() -> tuple[list[chart.Point], int]:
        session = await engine.session("chat", tenant=tenant)
        row = session._session._scope.row
        return engine.database.read(lambda c: chart.points(c, row)), await session.context_tokens()

    points, context = house.loop.run_until_complete(work())
    assert points[-1].context == context == 900
    assert [one.step for one in points] == list(range(1, 8))
    assert points[3].context == 3_040 and points[1].outputs > points[0].outputs > 0 and points[2].replies > 0
    drawn = chart.chart(points, window=20_000, headroom=14_000)
    assert drawn is not None and len(drawn.bars) == 7
    assert {line.name: line.is_above for line in drawn.lines} == {"window": True, "headroom": True}
    assert all(bar.counted + bar.outputs + bar.replies <= drawn.height for bar in drawn.bars)


def test_looking_changes_nothing(local_house: House, tenant: str) -> None:
    name = fill(local_house, tenant)
    of_all: Callable[[], list[object]] = lambda: local_house.engine.database.read(  # noqa: E731
        lambda c: [
            c.exec_driver_sql(f"SELECT * FROM {table}").all()
            for table in ("byref_sessions", "byref_artifacts", "byref_ledger")
        ]
    )
    token = local_house.token(tenant, "inspect", "content")
    before = of_all()
    look(
        local_house,
        token,
        "",
        page("session", session=name),
        *(page("step", session=name, step=n) for n in range(1, 8)),
    )
    opened = local_house.engine._opened()
    opened._uses.write()
    assert of_all() == before


@pytest.mark.parametrize(
    "number, shown", [(0, "0 bytes"), (999, "999 bytes"), (1_500, "1.5 kB"), (999_600, "1.0 MB"), (2**30, "1.1 GB")]
)
def test_sizes_are_rounded_and_exact_in_the_title(number: int, shown: str) -> None:
    assert size(number) == f'<span title="{number:,} bytes">{shown}</span>'


def test_errors_are_counted_and_found(house: House, tenant: str) -> None:
    fill(house, tenant)

    async def more() -> None:
        session = await house.engine.session("chat", tenant=tenant)
        for n in range(60):
            await session.process(f"wrong {n}", tool="later", is_error=True)

    house.loop.run_until_complete(more())
    token = house.token(tenant, "inspect", "content")
    listed, first, rest = look(
        house,
        token,
        "",
        page("session", session="chat", only="errors"),
        page("session", session="chat", only="errors", after=56),
    )
    assert re.search(r'only=errors">61</a>', listed.text)
    steps = [re.findall(r'id="step-(\d+)"', checked(one).text and one.text) for one in (first, rest)]
    assert steps[0] == ["2", *(str(n) for n in range(8, 57))] and steps[1] == [str(n) for n in range(57, 68)]
    assert "after=56&amp;only=errors" in first.text and 'rel="next"' not in rest.text


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("damage", ["{", "[1]", '{"made": 7}', "\x00ÿ"[1:], "null", ""])
def test_a_damaged_run_is_shown_with_what_can_be_read(house: House, tenant: str, damage: str) -> None:
    async def work() -> None:
        session = await house.engine.session("chat", tenant=tenant)
        for code in ("kept = 1", "nothing_of_the_kind", "2 + 2"):
            await session.call("code_interpreter", {"code": code})

    house.loop.run_until_complete(work())
    runs = text(
        "SELECT r.id FROM byref_runs r JOIN byref_sessions s ON s.id = r.session_id WHERE s.tenant = :t ORDER BY r.id"
    )
    numbers = house.engine.database.read(lambda c: c.execute(runs, {"t": tenant}).scalars().all())
    change = text("UPDATE byref_runs SET names = :d, error = :d, limits = :d WHERE id IN (:first, :second)")
    house.engine.database.write(
        lambda c: c.execute(change, {"d": damage, "first": numbers[0], "second": numbers[1]}).rowcount
    )
    token = house.token(tenant, "inspect", "content")
    every, *each = look(
        house, token, page("runs", session="chat"), *(page("run", session="chat", run=n) for n in numbers)
    )
    assert "damaged" in checked(every).text and "2 + 2" in every.text
    for answer, code in zip(each, ("kept = 1", "nothing_of_the_kind", "2 + 2"), strict=True):
        assert code in checked(answer).text
        assert ("damaged" in answer.text) == (code != "2 + 2")
