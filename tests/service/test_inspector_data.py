"""The inspector's pages of data and code: each view is right, bounded whatever the data, and for those who may see it."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import numpy
import pytest
from service_kit import House
from test_inspector import Tags, checked, look, page

from byref import Policy
from byref.errors import ToolError
from byref.service import app
from byref.service.inspector import bigtables, views
from byref.service.inspector.sight import Sight

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4
ALL = Sight(True)


def add(house: House, tenant: str, *artifacts: tuple[str, object, str | None]) -> None:
    async def work() -> None:
        session = await house.engine.session("chat", tenant=tenant)
        for name, value, content_type in artifacts:
            await session.store_artifact(value, name=name, content_type=content_type)

    house.loop.run_until_complete(work())


def give(house: House, tenant: str, tool: str, output: object) -> None:
    async def work() -> None:
        session = await house.engine.session("chat", tenant=tenant, policy=Policy(mode="variables"))
        done = await session.process(output, tool=tool)
        assert done.route == "variables", (done.route, done.reason)

    house.loop.run_until_complete(work())


def shown(house: House, tenant: str, **query: object) -> Tags:
    token = house.token(tenant, "inspect", "content")
    return checked(look(house, token, page("artifact", session="chat", **query))[0])


def cells(html: str) -> list[list[str]]:
    """The rows of the first table of a page."""
    import re

    body = html.split("<tbody>")[1].split("</tbody>")[0]
    return [
        [re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
        for row in body.split("<tr")[1:]
    ]


def test_a_table_is_sorted_and_turned(house: House, tenant: str) -> None:
    rows = [{"id": n, "total": (n * 7) % 250 if n % 50 else None, "of": {"x": n}} for n in range(250)]
    add(house, tenant, ("orders", rows, None))
    token = house.token(tenant, "inspect", "content")
    about: dict[str, Any] = {"session": "chat", "artifact": "orders"}
    first, last, up, down = look(
        house,
        token,
        page("artifact", **about),
        page("artifact", row=200, **about),
        page("artifact", sort="total", **about),
        page("artifact", sort="total", order="descending", row=200, **about),
    )
    assert cells(first.text)[:2] == [["0", "0", "null", "{&#34;x&#34;: 0}"], ["1", "1", "7", "{&#34;x&#34;: 1}"]]
    assert len(cells(first.text)) == 100 and [row[1] for row in cells(last.text)] == [str(n) for n in range(200, 250)]
    want = sorted(rows, key=lambda one: (one["total"] is None, one["total"]))
    assert [row[1] for row in cells(up.text)] == [str(one["id"]) for one in want[:100]]
    assert [row[2] for row in cells(down.text)][-1] == "1"
    assert "Rows 0–99 of 250" in checked(first).text and "Rows 200–249 of 250" in checked(last).text


def test_a_table_in_a_text_is_a_table(house: House, tenant: str) -> None:
    async def work() -> None:
        session = await house.engine.session("chat", tenant=tenant)
        text = "id,country\n" + "".join(f"{n},DE\n" for n in range(20_000))
        await session.process(text, tool="export")

    house.loop.run_until_complete(work())
    (answer,) = look(
        house,
        house.token(tenant, "inspect", "content"),
        page("artifact", session="chat", variable="export", row=19_900),
    )
    assert cells(answer.text)[-1] == ["19,999", "19999", "DE"]


@pytest.fixture
def nothing_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "PARSED_BYTES", 0)
    monkeypatch.setattr(views, "SMALL_BYTES", 0)
    monkeypatch.setattr(bigtables, "SECONDS", 60)


BIG = [{"id": n, "note": f'x\n"y" {n % 3}'} for n in range(1_234)]
HEADED = "id,note\n" + "".join(f"{n},{'x' * (n % 7)} {n % 3}\n" for n in range(1_234))


@pytest.mark.parametrize(
    "name, about, value, content_type",
    [
        ("of records", {"artifact": "of records"}, BIG, None),
        ("below a key", {"variable": "orders"}, {"page": 1, "orders": BIG, "more": {"orders": [1]}}, "output"),
        ("in lines", {"artifact": "in lines"}, "\n".join(map(json.dumps, BIG)), "output"),
        ("delimited", {"artifact": "delimited"}, HEADED, "output"),
    ],
)
def test_big_tables_that_have_a_row_in_each_line(
    house: House, tenant: str, nothing_is_parsed: None, name: str, about: dict[str, Any], value: Any, content_type: str
) -> None:
    if content_type == "output":
        give(house, tenant, name, value)
    else:
        add(house, tenant, (name, value, content_type))
    if "artifact" in about and content_type == "output":
        about = {"variable": name.replace(" ", "_")}
    token = house.token(tenant, "inspect", "content")
    first, end, some, none = look(
        house,
        token,
        page("artifact", session="chat", **about),
        page("artifact", session="chat", row=1_200, **about),
        page("artifact", session="chat", containing=" 2", row=900, **about),
        page("artifact", session="chat", containing="NOBODY", **about),
    )
    assert [row[1] for row in cells(first.text)] == [str(n) for n in range(100)]
    assert [row[1] for row in cells(end.text)] == [str(n) for n in range(1_200, 1_234)]
    assert "1,200–1,233 of 1,234" in checked(end).text and "sort=" not in end.text
    assert [row[0] for row in cells(some.text)] == [f"{n:,}" for n in range(900, 1_200) if n % 3 == 2]
    assert "row=1200" in some.text
    assert "No row contains this" in " ".join(checked(none).text.split())


@pytest.mark.parametrize("written", ["[{}]", ' {{"page": {{"orders": []}}, "orders" : \n[ {} ], "end": 1}}'])
def test_big_tables_in_the_json_of_others(house: House, tenant: str, nothing_is_parsed: None, written: str) -> None:
    rows = [*BIG[:250], {"id": 250, "note": "ü" * 1_000}, *BIG[251:400]]
    give(house, tenant, "everything", written.format(" , ".join(json.dumps(one, ensure_ascii=False) for one in rows)))
    link = page("artifact", session="chat", variable="everything" if written.startswith("[") else "orders")
    token, found = house.token(tenant, "inspect", "content"), list[list[str]]()
    while True:
        (answer,) = look(house, token, link)
        found += cells(answer.text)
        further = [one["href"] for tag, one in checked(answer).found if tag == "a" and one.get("rel") == "next"]
        if not further:
            break
        (link,) = further
    assert [row[1] for row in found] == [str(n) for n in range(400)] and "ü" in found[250][2]
    (astray,) = look(house, token, f"{link}&row=5&place=1001")
    assert "No row here" in " ".join(checked(astray).text.split()) or len(cells(astray.text)) <= 100


def test_a_tree_is_bounded() -> None:
    deep: Any = 1
    for _ in range(900):
        deep = [deep]
    (root,) = views.tree(
        ALL,
        {"wide": list(range(10_000)), "deep": deep, "text": "x" * 10_000, **{f"k{n}": [[[n]]] for n in range(5_000)}},
    )
    assert (root.kind, len(root.children), root.left_out) == ("object of 5,003", 100, 4_903)
    wide = root.children[0]
    assert (wide.name, len(wide.children), wide.left_out) == ("wide", 100, 9_900)
    assert root.children[2].text is not None and root.children[2].text.left_out == 9_700

    def nodes(of: views.Node) -> int:
        return 1 + sum(map(nodes, of.children))

    assert nodes(root) <= views.NODES
    (hidden,) = views.tree(Sight(True, lambda text: text.replace("secret", "-")), {"secret": ["a secret"]})
    assert hidden.children[0].name == "-" and hidden.children[0].children[0].text.text == "a -"


def test_lines_are_bounded_and_searched(house: House, tenant: str) -> None:
    text = (
        "\n".join(f"line {n} {'needle' if n % 400 == 7 else ''}" for n in range(1, 1_001))
        + "\n"
        + "y" * (5 << 20)
        + "\nlast"
    )
    add(house, tenant, ("log", text, "text/plain"))
    assert "line 200" in shown(house, tenant, artifact="log").text
    later = shown(house, tenant, artifact="log", start=900).text
    assert "line 899" not in later and "line 1000" in later and "yyy" in later and "last" not in later
    found = shown(house, tenant, artifact="log", grep="needle").text
    assert "line 407 needle" in found and "line 300 " not in found
    assert "past the end" not in shown(house, tenant, artifact="log", start=10**9).text


def test_pictures_are_pictures_and_nothing_else_is(house: House, tenant: str) -> None:
    svg = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"
    add(house, tenant, ("a.png", PNG, "image/png"), ("b.svg", svg, "image/svg+xml"), ("c.png", svg, "image/png"))
    token = house.token(tenant, "inspect", "content")
    good, bad, false = (page("image", session="chat", artifact=name) for name in ("a.png", "b.svg", "c.png"))
    picture, *others = look(house, token, good, bad, false)
    assert (picture.content, picture.headers["Content-Type"]) == (PNG, "image/png")
    assert (
        picture.headers["X-Content-Type-Options"] == "nosniff"
        and "sandbox" in picture.headers["Content-Security-Policy"]
    )
    assert [one.status_code for one in others] == [404, 404]
    assert [tag for tag, _ in shown(house, tenant, artifact="a.png").found].count("img") == 1
    assert "img" not in [tag for tag, _ in shown(house, tenant, artifact="b.svg").found]
    (saved,) = look(house, token, page("download", session="chat", artifact="b.svg"))
    assert saved.content == svg and saved.headers["Content-Disposition"].startswith("attachment")
    assert saved.headers["X-Content-Type-Options"] == "nosniff"


def test_data_is_for_those_who_may_see_it(local_house: House, tenant: str) -> None:
    rows = [{"id": n, "word": "sesame"} for n in range(30)]
    add(local_house, tenant, ("orders", rows, None), ("a.png", PNG, "image/png"), ("note", "open sesame", None))
    blind, sees = local_house.token(tenant, "inspect"), local_house.token(tenant, "inspect", "content")
    names = ("orders", "note", "a.png")
    for answer in look(local_house, blind, *(page("artifact", session="chat", artifact=name) for name in names)):
        assert "sesame" not in checked(answer).text and "img" not in [tag for tag, _ in Tags(answer.text).found]
    hidden = [page(way, session="chat", artifact=name) for way in ("image", "download") for name in names]
    assert {one.status_code for one in look(local_house, blind, *hidden)} == {403, 404}
    redacting = app(local_house.engine, redact=lambda text: text.replace("sesame", "-"))
    views_ = [page("artifact", session="chat", artifact="orders", view=view) for view in ("table", "tree", "lines")]
    views_ += [page("artifact", session="chat", artifact="note", grep="open")]
    for answer in look(local_house, sees, *views_, service=redacting):
        assert "sesame" not in checked(answer).text and "-" in answer.text
    assert {one.status_code for one in look(local_house, sees, *hidden, service=redacting)} == {403, 404}


CARD = "4111222233334444"


def without_cards(text: str) -> str:
    return re.sub(r"\b\d{16}\b", "[card number]", text)


def test_a_search_is_of_what_is_seen(local_house: House, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a window around a match nor a cut line shows a part of a secret, and no pattern tells what is in it."""
    lines = [
        "z " * 246 + CARD + " " + "w " * 1_000,
        "word " * 300 + CARD + " " + "x" * 100 + " needle " + "word " * 300,
        *("other" for _ in range(300)),
        f"{CARD} last needle",
    ]
    add(local_house, tenant, ("note", "\n".join(lines), "text/plain"))
    service, token = app(local_house.engine, redact=without_cards), local_house.token(tenant, "inspect", "content")

    def found(pattern: str, **query: object) -> str:
        path = page("artifact", session="chat", artifact="note", grep=pattern, **query)
        (answer,) = look(local_house, token, path, service=service)
        return checked(answer).text

    for pattern in ("needle", *(f"x{{{n}}} needle" for n in range(30, 60)), "w "):
        told = found(pattern)
        assert not any(CARD[at : at + 4] in told for at in range(0, 13, 4)), pattern
    assert "> 303| [card number] last needle" in found("needle")
    assert "[card number] last" in found(r"card number\] last")
    for oracle in (r"\b41\d{14}\b", "4[1]11", r"\d{16}"):
        assert "[card number]" not in found(oracle)
    monkeypatch.setattr(views, "READ_BYTES", 4_000)
    assert "Searched up to line 2 of 303." in found("nothing") and "From line 3 on" in found("nothing")
    assert "last needle" in found("last n", start=303) and "Searched up to" not in found("last n", start=303)


def test_no_view_of_json_shows_what_its_escapes_hid(local_house: House, tenant: str) -> None:
    rows = [{"n": n, "note": {"text": f"card:\n{CARD}"}} for n in range(30)]
    text = json.dumps([{"note": f"card: {CARD[0]}\t{CARD}"}])
    add(local_house, tenant, ("rows", rows, None), ("written", text, "application/json"))
    service, token = app(local_house.engine, redact=without_cards), local_house.token(tenant, "inspect", "content")
    views_ = [{"view": "table"}, {"view": "tree"}, {"view": "lines"}, {"grep": "note"}]
    about = [{"session": "chat", "artifact": name} for name in ("rows", "written")]
    paths = [page("artifact", **one, **view) for one in about for view in views_]
    paths.append(page("diff", session="chat", artifact="rows", **{"with": "written"}))
    for answer in look(local_house, token, *paths, service=service):
        assert "[card number]" in checked(answer).text and CARD not in answer.text


@pytest.mark.parametrize("is_large", [False, True])
def test_rows_are_neither_sorted_nor_searched_where_content_is_redacted(
    local_house: House, tenant: str, is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_large:
        monkeypatch.setattr(views, "SMALL_BYTES", 0)
    add(local_house, tenant, ("cards", [{"id": n, "card": str(int(CARD) + n)} for n in range(200)], None))
    service, token = app(local_house.engine, redact=without_cards), local_house.token(tenant, "inspect", "content")
    about = {"session": "chat", "artifact": "cards"}
    paths = [
        page("artifact", **about),
        page("artifact", sort="card", **about),
        page("artifact", containing="4", **about),
    ]
    table, *refused = look(local_house, token, *paths, service=service)
    assert "[card number]" in checked(table).text and "sort=" not in table.text and "containing" not in table.text
    assert [one.status_code for one in refused] == [403, 403]
    assert all("it would tell what is hidden" in one.text for one in refused)


def test_no_page_begins_inside_of_what_is_redacted(local_house: House, tenant: str) -> None:
    body = json.dumps([{"id": n, "card": int(CARD), "note": "x" * 60} for n in range(12_000)], indent=1)
    add(local_house, tenant, ("cards", body, "application/json"))
    service, token = app(local_house.engine, redact=without_cards), local_house.token(tenant, "inspect", "content")
    inside = body.index(CARD) + 1
    first, part = look(
        local_house,
        token,
        page("artifact", session="chat", artifact="cards", view="table"),
        page("artifact", session="chat", artifact="cards", view="table", row=1, place=inside),
        service=service,
    )
    for one in (first, part):
        assert "[card number]" in checked(one).text and CARD[1:] not in one.text


def test_a_secret_at_a_cut_is_redacted_whole(local_house: House, tenant: str) -> None:
    key = "-----BEGIN KEY-----\n" + "SECRET" * 500 + "\n-----END KEY-----"
    text = "line\n" * 3_900 + key + "\nline" * 20_000

    async def work() -> None:
        session = await local_house.engine.session("chat", tenant=tenant)
        await session.process(text, tool="log")

    local_house.loop.run_until_complete(work())

    def without_keys(text: str) -> str:
        return re.sub("-----BEGIN KEY.*?END KEY-----", "[key]", text, flags=re.DOTALL)

    service, token = app(local_house.engine, redact=without_keys), local_house.token(tenant, "inspect", "content")
    (step,) = look(local_house, token, page("step", session="chat", step=1), service=service)
    assert "[key]" in checked(step).text and "SECRET" not in step.text


@pytest.mark.quick_cases(1)
def test_code_is_shown_with_what_it_called_and_left(house: House, tenant: str) -> None:
    def tax(country: str) -> float:
        return {"DE": 0.19}[country]

    async def work() -> None:
        session = await house.engine.session("chat", tenant=tenant, functions=[tax])
        await session.process([{"id": n} for n in range(9_000)], tool="orders", call_id="c1")
        await session.call("code_interpreter", {"code": "kept = tax('DE')\nprint('said')\nlen(orders)"}, call_id="c2")
        await session.call("code_interpreter", {"code": "tax('FR')"}, call_id="c3")

    house.loop.run_until_complete(work())
    token = house.token(tenant, "inspect", "content")
    listed, variables, artifacts, used, health = look(
        house,
        token,
        page("runs", session="chat"),
        page("variables", session="chat"),
        page("artifacts", session="chat"),
        page("artifact", session="chat", variable="orders"),
        "health",
    )
    checked(listed)
    links = [dict(attributes).get("href") or "" for _, attributes in checked(listed).found]
    failed, ran = look(house, token, *[link for link in links if link.startswith("run?")])
    told = checked(ran).text
    assert (
        "kept = tax('DE')" in told
        and "said" in told
        and "9000" in told
        and '{"country":"DE"}' in told
        and "returned" in told
    )
    assert "KeyError" in checked(failed).text
    assert "orders" in checked(variables).text and "array(9000)" in checked(artifacts).text
    assert "Who used it" in checked(used).text and "code_interpreter" in used.text
    assert "Walls of the sandbox" in checked(health).text
    (blind,) = look(house, house.token(tenant, "inspect"), [link for link in links if link.startswith("run?")][1])
    assert "said" not in checked(blind).text.replace("is said", "") and "kept = " not in blind.text


@pytest.mark.quick_cases(1)
def test_a_big_table_that_code_left_is_a_table(house: House, tenant: str) -> None:
    async def work() -> None:
        session = await house.engine.session("chat", tenant=tenant)
        made = await session.run(
            "import pandas as pd\n"
            "big = pd.DataFrame({'n': range(120_000), 'half': [n / 2 for n in range(120_000)], 'when': pd.Timestamp('2024-01-03')})"
        )
        assert made.error is None

    house.loop.run_until_complete(work())
    token = house.token(tenant, "inspect", "content")
    about = {"session": "chat", "variable": "big"}
    first, lines, listed = look(
        house,
        token,
        page("artifact", **about),
        page("artifact", view="lines", **about),
        page("artifacts", session="chat"),
    )
    assert cells(first.text)[3] == ["3", "3", "1.5", "2024-01-03T00:00:00"]
    assert "of 120,000" in checked(first).text
    assert "2024-01-03T00:00:00" in checked(lines).text
    download = re.search(r'href="([^"]*download[^"]*)"', first.text)
    assert download is not None
    (stored,) = look(house, token, download[1].replace("&amp;", "&"))
    assert json.loads(stored.content)[3]["half"] == 1.5 and stored.headers["content-type"] == "application/json"
    assert checked(listed)


def test_what_became_of_names_is_shown(house: House, tenant: str) -> None:
    async def work() -> None:
        session = await house.engine.session("chat", tenant=tenant)
        await session.process([{"id": n} for n in range(9_000)], tool="orders", call_id="c1")
        await session.run("first, second = 1, [2]\ndef double(n):\n    return 2 * n")
        await session.call("code_interpreter", {"code": "first = len(orders)\nthird = {3}\ndel second\norders = 5"})
        await session.call("artifact_jq", {"artifact_id": "orders", "expression": "length"})

    house.loop.run_until_complete(work())
    token = house.token(tenant, "inspect")
    (listed,) = look(house, token, page("runs", session="chat"))
    links = [str(dict(attributes).get("href")) for _, attributes in checked(listed).found]
    jq, python, host = look(house, token, *[link for link in links if link.startswith("run?")])
    fates, around = python.text.split('class="names"')
    rows = [re.sub(r"<[^>]*>|\s+", " ", row).split() for row in re.findall("<tr data-row>(.*?)</tr>", fates, re.DOTALL)]
    assert [" ".join(row) for row in rows] == [
        "third made set",
        "first changed integer",
        "second dropped",
        "orders for this run only the stored data is unchanged",
    ]
    assert "variable=orders" in around
    told = " ".join(re.sub(r"<[^>]*>", " ", around).split())
    assert "before it double first second after it double first third" in told
    assert "double made function" in re.sub(r"(<[^>]*>|\s)+", " ", host.text) and "Names" not in jq.text
    redacting = app(house.engine, redact=lambda text: text.replace("third", "-"))
    (hidden,) = look(house, token, [link for link in links if link.startswith("run?")][1], service=redacting)
    assert "third" not in hidden.text


def test_what_expired_is_told(local_house: House, tenant: str) -> None:
    add(local_house, tenant, ("orders", [{"id": 1}], None))

    async def work() -> None:
        session = await local_house.engine.session("chat", tenant=tenant)
        (artifact,) = await session.artifacts()
        change = "UPDATE byref_artifacts SET expires_at = datetime('now', '-1 hour') WHERE public_id = :id"
        local_house.engine.database.write(lambda c: c.exec_driver_sql(change.replace(":id", f"'{artifact.id}'")))
        await local_house.engine.sweep()

    local_house.loop.run_until_complete(work())
    token = local_house.token(tenant, "inspect", "content")
    listed, gone = look(
        local_house, token, page("artifacts", session="chat"), page("artifact", session="chat", artifact="orders")
    )
    assert "No longer there" in checked(listed).text and "orders" in listed.text
    assert gone.status_code == 404


def test_what_is_told_of_an_expired_variable_hides_the_arguments_of_its_call(local_house: House, tenant: str) -> None:
    """Its cut text may end within a secret: where content is redacted it is not told at all."""

    async def work() -> None:
        session = await local_house.engine.session("chat", tenant=tenant)
        rows = [{"id": n, "word": "some words"} for n in range(2_000)]
        await session.process(rows, tool="rows", arguments={"card": CARD, "more": "x" * 1_950 + CARD})
        change = f"UPDATE byref_artifacts SET expires_at = datetime('now', '-1 hour') WHERE tenant = '{tenant}'"
        local_house.engine.database.write(lambda c: c.exec_driver_sql(change))

    local_house.loop.run_until_complete(work())
    blind, sees = local_house.token(tenant, "inspect"), local_house.token(tenant, "inspect", "content")
    path, redacting = page("artifact", session="chat", variable="rows"), app(local_house.engine, redact=without_cards)
    (told,), (hidden,), (redacted,) = (
        look(local_house, sees, path),
        look(local_house, blind, path),
        look(local_house, sees, path, service=redacting),
    )
    assert told.status_code == 404 and "Call rows again with" in told.text and CARD in told.text
    for one in (hidden, redacted):
        assert one.status_code == 404 and "or none any more" in one.text and CARD[:8] not in one.text


def test_why_data_is_not_shown_is_redacted(local_house: House, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    add(local_house, tenant, ("orders", [{"id": 1}], None), ("note", "one", "text/plain"))

    def fails(*_: object) -> None:
        raise ToolError(f"there is no key '{CARD}'")

    monkeypatch.setattr(views, "value_of", fails)
    monkeypatch.setattr(views, "difference", fails)
    service, token = app(local_house.engine, redact=without_cards), local_house.token(tenant, "inspect", "content")
    about = {"session": "chat", "artifact": "orders"}
    not_shown, refused = look(
        local_house, token, page("artifact", **about), page("diff", **about, **{"with": "note"}), service=service
    )
    assert (not_shown.status_code, refused.status_code) == (200, 422)
    for one in (not_shown, refused):
        assert "no key" in one.text and "[card number]" in one.text and CARD not in one.text


@pytest.mark.slow
def test_every_page_is_small(local_house: House, tenant: str) -> None:
    words = "".join(numpy.random.default_rng(1).choice(list("abc <>&\"'\n\u202e"), 1 << 20))
    add(local_house, tenant, ("text", words, None), ("bytes", io.BytesIO(words.encode()), "text/plain"))
    add(local_house, tenant, ("wide", [{f"c{n}": words[:900] for n in range(60)} for _ in range(120)], None))
    token = local_house.token(tenant, "inspect", "content")
    for name in ("text", "bytes", "wide"):
        for view in ("table", "tree", "lines"):
            (answer,) = look(local_house, token, page("artifact", session="chat", artifact=name, view=view))
            assert answer.status_code == 200 and len(answer.content) < 6 << 20, (name, view, len(answer.content))


def test_two_texts_are_compared(house: House, tenant: str) -> None:
    one = [f"line {n} <b>" for n in range(3_000)]
    two = [*one[:10], "another sesame", *one[11:]]
    add(house, tenant, ("one", "\n".join(one), None), ("two", "\n".join(two), None), ("bytes", PNG, "image/png"))
    token = house.token(tenant, "inspect", "content")
    about = {"session": "chat", "artifact": "one"}
    there, same, none, binary = look(
        house, token, *(page("diff", **about, **{"with": name}) for name in ("two", "one", "three", "bytes"))
    )
    told = checked(there).text
    assert (
        "-line 10 <b>" in told
        and "+another sesame" in told
        and "line 20 " not in told
        and "Only the beginnings" in told
    )
    assert "the same bytes" in checked(same).text and (none.status_code, binary.status_code) == (404, 422)
    (blind,) = look(house, house.token(tenant, "inspect"), page("diff", **about, **{"with": "two"}))
    assert blind.status_code == 403
    redacting = app(house.engine, redact=lambda text: text.replace("sesame", "-"))
    (hidden,) = look(house, token, page("diff", **about, **{"with": "two"}), service=redacting)
    assert "another -" in checked(hidden).text
