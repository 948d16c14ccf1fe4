"""The inspector in a real browser: strangers' texts do nothing there, and people can read the pages."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from browsers import chromium
from service_kit import House, served

playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed: no browser is driven")

PICTURES = Path(__file__).parents[2] / "docs/inspector"
BREAKS = (
    "",
    '">',
    "'>",
    "-->",
    "</script>",
    "</title></textarea></style>",
    "]]>",
    "\n",
    "{{",
    "${",
    "`",
    "\\",
    "\x00",
    "\u202e",
    "&quot;>",
)
VECTORS = (
    "<script>hit(1)</script>",
    "<scr<script>ipt>hit(1)</scr</script>ipt>",
    "<img src=//evil.test/x onerror=hit(1)>",
    "<svg/onload=hit(1)>",
    "<svg><script href=data:,hit(1) /></svg>",
    "<svg><animate onbegin=hit(1) attributeName=x dur=1s>",
    "<math><mi xlink:href=javascript:hit(1)>x",
    "<iframe src=javascript:parent.hit(1)></iframe>",
    "<iframe srcdoc='<script>parent.hit(1)</script>'></iframe>",
    "<object data=//evil.test/x></object>",
    "<embed src=//evil.test/x>",
    "<details open ontoggle=hit(1)>",
    "<input autofocus onfocus=hit(1)>",
    "<body onload=hit(1)>",
    "<marquee onstart=hit(1)>",
    "<video><source onerror=hit(1)></video>",
    "<style>@import '//evil.test/x';</style>",
    "<link rel=stylesheet href=//evil.test/x>",
    "<link rel=prefetch href=//evil.test/x>",
    "<meta http-equiv=refresh content='0;url=//evil.test/x'>",
    "<base href=//evil.test/>",
    "<form action=//evil.test/x><button autofocus>x</button></form>",
    "<a href=javascript:hit(1) ping=//evil.test/x>click</a>",
    "<template><img src=x onerror=hit(1)></template>",
    "<noscript><p title='</noscript><img src=x onerror=hit(1)>'>",
    "<p style='background:url(//evil.test/x)'>x</p>",
    "<x onclick=hit(1) onmouseover=hit(1) tabindex=1 autofocus onfocus=hit(1)>",
    '" onfocus=hit(1) autofocus x="',
    "' onmouseover=hit(1) style='position:fixed;inset:0' x='",
    "javascript:hit(1)//",
    "jav\tascript:hit(1)",
    "data:text/html,<script>hit(1)</script>",
    "javascript:/*--></title></style></textarea></script></xmp><svg/onload='+/\"/+/onmouseover=1/+/[*/[]/+hit(1)//'>",
    "{{constructor.constructor('hit(1)')()}}",
    "{% print(hit(1)) %}${hit(1)}#{hit(1)}<%= hit(1) %>",
)
PAYLOADS = [broken + vector for broken, vector in product(BREAKS, VECTORS)]


def payloads() -> list[str]:
    """Ours, and with PAYLOADS=file those of a public list."""
    file = os.environ.get("PAYLOADS")
    given = Path(file).read_text(errors="surrogateescape").splitlines() if file else []
    return PAYLOADS + [one.replace("alert", "hit") for one in given if one.strip()]


async def fill(house: House, tenant: str, some: list[str]) -> list[str]:
    """Sessions in which every field that a stranger can fill is one of some texts; returns the links to their pages."""
    links = ["", "health"]
    for number in range(0, len(some), 25):
        few = some[number : number + 25]
        name = few[0].replace("\0", "")[:100] or "x"
        session = await house.engine.session(name, tenant=tenant, model=few[1 % len(few)])
        about = {"session": name}
        for place, text in enumerate(few):
            call = f"{text}{number + place}"
            await session.process(text, tool=text, call_id=call, arguments={text: text}, is_error=place % 2 == 1)
            named = "".join(one for one in text if one.isprintable())[:200]
            stored = await session.store_artifact(f"{text}\n" * 3, name=named or None)
            links.append("artifact?" + urlencode(about | {"artifact": stored.id}))
        await session.process(
            [{text: text, "of": {text: [text]}} for text in few] * 150, tool=few[0], call_id=f"t{number}"
        )
        await session.record_usage({"input_tokens": 10, "output_tokens": 1, "model": few[-1]}, request_id=few[0])
        (bound, *_) = [one.name for one in await session.variables() if one.path == ()]
        links += [
            "artifact?" + urlencode(about | {"variable": bound, "view": view}) for view in ("table", "tree", "lines")
        ]
        links += ["artifact?" + urlencode(about | {"variable": bound, "sort": few[0], "grep": few[2 % len(few)]})]
        links += [f"{page}?" + urlencode(about) for page in ("session", "ledger", "artifacts", "variables", "runs")]
        links += ["session?" + urlencode(about | {"after": 20})]
        links += ["step?" + urlencode(about | {"step": step}) for step in range(1, len(few) + 3)]
        if number < 25:
            for text in few:
                await session.call(
                    "code_interpreter", {"code": f"print({text!r})\n{text!r} + nothing"}, call_id=f"c{text}"
                )
            links += ["run?" + urlencode(about | {"run": run}) for run in range(1, 4)]
        links += [
            f"{page}?" + urlencode({name: few[0]})
            for page in ("", "step", "nothing")
            for name in ("search", "after", "session")
        ]
    return links


Visit = Callable[[Any, str], Awaitable[None]]


def browse(house: House, tenant: str, visit: Visit, *settings: dict[str, Any]) -> None:
    """Let a browser that has signed in visit the service at a port of this machine, once with each of the settings."""
    path = chromium()
    token = house.token(tenant, "inspect", "content")

    async def work() -> None:
        async with served(house) as base, playwright.async_playwright() as driver:
            browser = await driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
            try:
                for each in settings:
                    context = await browser.new_context(**each)
                    cookie = {"name": "byref_inspect", "value": token, "domain": "127.0.0.1", "path": "/inspect"}
                    await context.add_cookies([cookie])
                    await visit(context, f"{base}/inspect/")
                    await context.close()
            finally:
                await browser.close()

    house.loop.run_until_complete(work())


OURS = """() => [...document.querySelectorAll('*')].filter((one) => !OK.has(one.localName) ||
  [...one.attributes].some((each) => each.name.startsWith('on') || each.name === 'style' || each.name === 'ping') ||
  /^\\s*(javascript|data|https?:|\\/\\/)/i.test(one.getAttribute('href') || one.getAttribute('src') || one.getAttribute('action') || '')
).map((one) => one.outerHTML.slice(0, 200))""".replace(
    "OK.has",
    "new Set(`html head body meta title link script a header nav div form button main h1 h2 h3 p span small b i bdi code pre table thead tbody tr th td "
    "time details summary dl dt dd section figure svg rect line figcaption ul li img input label`.split(' ')).has",
)
"""What is on a page that none of our templates writes."""


def nothing_happens(house: House, tenant: str, some: list[str], *, every: int) -> int:
    """Visit each `every`-th page with the policy, and without it, so that escaping is enough by itself; return how many."""
    links = house.loop.run_until_complete(fill(house, tenant, some))
    visited = 0

    async def visit(context: Any, url: str) -> None:
        nonlocal visited
        happened: list[str] = []
        await context.expose_function("hit", lambda *_: happened.append("a payload ran"))
        page = await context.new_page()
        page.on("dialog", lambda dialog: happened.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: happened.append(request.url) if not request.url.startswith(url) else None)
        page.on(
            "console", lambda said: happened.append(said.text) if "Failed to load resource" not in said.text else None
        )
        for link in links[::every]:
            await page.goto(url + link, wait_until="load")
            assert page.url == url + link or page.url.startswith(url), page.url
            assert await page.evaluate(OURS) == [], link
            assert not happened, (link, happened)
            visited += 1

    browse(house, tenant, visit, {"bypass_csp": True}, {"bypass_csp": False})
    return visited


def test_texts_of_strangers_do_nothing(local_house: House, tenant: str) -> None:
    assert nothing_happens(local_house, tenant, PAYLOADS[5::129], every=7) >= 5


@pytest.mark.slow
def test_five_hundred_payloads_in_every_field_do_nothing(local_house: House, tenant: str) -> None:
    assert len(PAYLOADS) >= 500
    assert nothing_happens(local_house, tenant, payloads(), every=3) > 800


@pytest.mark.slow
def test_the_test_would_see_a_payload(local_house: House, tenant: str) -> None:
    async def visit(context: Any, url: str) -> None:
        happened: list[str] = []
        await context.expose_function("hit", lambda *_: happened.append("ran"))
        page = await context.new_page()
        await page.set_content("<details open ontoggle=hit(1)><p style='color:red'>")
        await page.wait_for_timeout(200)
        assert happened == ["ran"] and len(await page.evaluate(OURS)) == 2

    browse(local_house, tenant, visit, {"bypass_csp": True})


@pytest.fixture
def axe() -> Iterator[str]:
    accessibility = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    yield (Path(accessibility.__file__).parent / "axe.min.js").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_people_can_read_the_pages(local_house: House, tenant: str, axe: str, scheme: str) -> None:
    from test_inspector import fill as fill_calmly

    name = fill_calmly(local_house, tenant)
    about = urlencode({"session": name})
    links = [
        "",
        f"session?{about}",
        f"step?{about}&step=1",
        f"ledger?{about}",
        f"artifacts?{about}",
        f"variables?{about}",
        f"runs?{about}",
        "health",
    ]
    links += [f"artifact?{about}&variable=orders&view={view}" for view in ("table", "tree", "lines")] + [
        "enter",
        "nothing",
    ]

    async def visit(context: Any, url: str) -> None:
        page = await context.new_page()
        await page.emulate_media(color_scheme=scheme)
        for link in links:
            await page.goto(url + link)
            await page.evaluate(axe)
            found = (await page.evaluate("axe.run()"))["violations"]
            assert not [
                (one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")
            ], link
            wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{link} scrolls sideways by {wide}"

    browse(local_house, tenant, visit, {"bypass_csp": True, "viewport": {"width": 400, "height": 800}})


@pytest.mark.slow
def test_keys_move_through_the_list_and_times_are_local(local_house: House, tenant: str) -> None:
    from test_inspector import fill as fill_calmly

    name = fill_calmly(local_house, tenant)

    async def visit(context: Any, url: str) -> None:
        page = await context.new_page()
        refused: list[str] = []
        page.on("console", lambda said: refused.append(said.text))
        await page.goto(f"{url}session?session={name}")
        shown = await page.evaluate("document.querySelector('main time').textContent")
        exact = await page.evaluate("document.querySelector('main time').dateTime")
        assert shown.endswith(":30") or shown[-5:] != exact[11:16], (shown, exact)
        await page.keyboard.press("j")
        await page.keyboard.press("j")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/step?*step=2")
        assert refused == []

    browse(local_house, tenant, visit, {"timezone_id": "Asia/Kolkata"})


@pytest.mark.slow
def test_an_open_page_tells_of_new_steps(local_house: House, tenant: str) -> None:
    from test_inspector import fill as fill_calmly

    name = fill_calmly(local_house, tenant)

    async def visit(context: Any, url: str) -> None:
        page = await context.new_page()
        await page.goto(f"{url}session?session={name}")
        assert not await page.is_visible("[data-live]")
        session = await local_house.engine.session(name, tenant=tenant)
        for text in ("one", "two"):
            await session.process(text, tool="later")
        await page.wait_for_selector("text=2 new steps")
        await page.click("text=2 new steps")
        await page.wait_for_selector("#step-9")

    browse(local_house, tenant, visit, {})


@pytest.mark.slow
def test_the_pictures_of_the_page(local_house: House, tenant: str) -> None:
    """`UPDATE=1 pytest tests/service/test_inspector_browser.py -m slow -k pictures` makes those of docs/inspector.md anew."""

    async def shop() -> None:
        session = await local_house.engine.session(
            "chat-42", tenant=tenant, model="claude-sonnet-5", context_window=20_000
        )
        orders = [{"id": n, "country": ("DE", "FR", "US")[n % 3], "total": n * 37 % 500} for n in range(20_000)]
        for turn in range(16):
            page = orders if turn == 0 else orders[turn * 20 : turn * 20 + 20 + turn * 9]
            await session.process(
                {"page": turn, "orders": page}, tool="list_orders", call_id=f"o{turn}", arguments={"page": turn}
            )
            code = "df(orders).groupby('country').total.sum()" + ("['ES']" if turn % 6 == 4 else ".to_dict()")
            await session.call("code_interpreter", {"code": code}, call_id=f"c{turn}")
            await session.record_usage({"input_tokens": await session.context_tokens() + 120, "output_tokens": 90})
            if turn == 11:
                await session.on_compaction(3_000)

    async def visit(context: Any, url: str) -> None:
        page = await context.new_page()
        pictures = {
            "session": "session?session=chat-42",
            "step": "step?session=chat-42&step=1",
            "table": "artifact?session=chat-42&variable=orders&sort=total",
        }
        for name, link in pictures.items():
            await page.goto(url + link)
            await page.evaluate("document.querySelector('.who b').textContent = 'acme'")
            made = await page.screenshot()
            assert len(made) > 20_000
            if os.environ.get("UPDATE"):
                (PICTURES / f"{name}.png").write_bytes(made)
            assert (PICTURES / f"{name}.png").exists()

    local_house.loop.run_until_complete(shop())
    browse(local_house, tenant, visit, {"viewport": {"width": 1180, "height": 760}})


@pytest.mark.slow
def test_it_works_without_javascript(local_house: House, tenant: str) -> None:
    from test_inspector import fill as fill_calmly

    fill_calmly(local_house, tenant)

    async def visit(context: Any, url: str) -> None:
        page = await context.new_page()
        await page.goto(url)
        await page.click("text=chat")
        await page.click("th a >> text=1")
        assert "What came" in await page.content()
        await page.click("text=Leave")
        await page.wait_for_selector("input[type=password]")
        await page.goto(url)
        assert await page.query_selector("input[type=password]")
        await page.fill("input[type=password]", local_house.token(tenant, "inspect"))
        await page.click("text=Open")
        await page.wait_for_selector("text=shapes and numbers only")

    browse(local_house, tenant, visit, {"java_script_enabled": False})
