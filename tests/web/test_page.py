# SPDX-License-Identifier: Apache-2.0
"""The web page in headless Chromium: what it shows, deploys and deletes, at 400 and 1280 pixels."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from headrace.node.access.users import User, hash_of
from headrace.node.node import Node
from headrace.node.rest.web import WEB, files
from tests.node import graphs
from tests.node.api import Api, api_of
from tests.node.conftest import rundir as rundir
from tests.support.chromium import Tab, browser, tab_of
from tests.web.moving import moving

WIDTHS = [(1280, 900), (400, 800)]
VIEWS = [
    "", "graphs/g", "graphs/g/vnfs/nat", "node", "events", "users", "deploy", "graphs/g/edit",
]  # fmt: skip
CHAIN = graphs.document(
    [graphs.interface("left", "p0"), graphs.interface("right", "p1")],
    graphs.joined(
        ("endpoint:left", "vnf:firewall:port:0"),
        ("vnf:firewall:port:1", "vnf:nat:port:0"),
        ("vnf:nat:port:1", "endpoint:right"),
    ),
    [graphs.vnf("firewall", "firewall"), graphs.vnf("nat", "pass")],
)

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SMALLEST = """Math.min(...[...document.querySelectorAll("body *")]
  .filter((e) => e.checkVisibility())
  .filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
  .map((e) => parseFloat(getComputedStyle(e).fontSize)))"""


def near(shown: str, rate: float) -> bool:
    """Whether a rate as it is shown ("29.9 k") is that rate, as a loaded machine keeps it."""
    found = re.search(r"([\d.]+) ?([kM]?)", shown)
    assert found is not None, shown
    value = float(found[1]) * {"": 1, "k": 1e3, "M": 1e6}[found[2]]
    return abs(value - rate) < 0.2 * rate


async def texts(tab: Tab, selector: str) -> list[str]:
    wanted = json.dumps(selector)
    found: list[str] = await tab.value(
        f"[...document.querySelectorAll({wanted})].map((e) => e.textContent)"
    )
    return found


async def click(tab: Tab, selector: str) -> None:
    """Clicks as a person would, who does not press a button that is disabled."""
    await tab.until(f"document.querySelector({json.dumps(selector + ':not(:disabled)')})")
    await tab.value(f"document.querySelector({json.dumps(selector)}).click()")


async def write(tab: Tab, name: str, text: str) -> None:
    await tab.until(f"document.querySelector('[name={name}]')")
    await tab.value(
        f"""(() => {{
          const element = document.querySelector('[name={name}]');
          element.value = {json.dumps(text)};
          for (const kind of ["input", "change"]) element.dispatchEvent(new Event(kind));
        }})()"""
    )


def answered_late(node: Node) -> None:
    """A deletion is answered when the page would have read the graph again, in vain."""
    delete = node.graphs.delete

    def late(graph_id: str) -> asyncio.Task[None]:
        async def wait() -> None:
            await delete(graph_id)
            await asyncio.sleep(1.5)

        return asyncio.create_task(wait())

    node.graphs.delete = late  # type: ignore[method-assign]


async def test_the_files_need_no_token_and_nothing_else_is_open(rundir: Path) -> None:
    async for api in api_of(rundir, rest={"login": True}):
        for path in ("/", "/ui/main.js", "/ui/examples/pass.json", "/ui/examples"):
            answer = await api("GET", path)
            assert answer.status_code == 200, path
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy and "unsafe" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert (await api("DELETE", path)).status_code == 401
        for path in ("/node", "/NF-FG", "/uix", "/ui/../node", "/node/graphs", "/openapi.json"):
            assert (await api("GET", path)).status_code == 401, path


async def test_only_files_of_the_page_are_served(api: Api) -> None:
    assert (await api("GET", "/docs/favicon.png")).status_code == 404
    for path in ("/ui/../node.py", "/ui/%2e%2e/node.py", "/ui//etc/passwd", "/ui/views", "/ui/"):
        assert (await api("GET", path)).status_code == 404, path
    answer = await api("GET", "/ui/style.css")
    assert answer.headers["content-type"] == "text/css; charset=utf-8"
    again = await api.http.get("/ui/style.css", headers={"if-none-match": answer.headers["etag"]})
    assert again.status_code == 304 and not again.content
    assert (await api("GET", "/ui/examples")).json() == sorted(
        name.removeprefix("examples/").removesuffix(".json")
        for name in files()
        if name.startswith("examples/")
    )


def test_the_page_takes_nothing_from_elsewhere() -> None:
    for file in WEB.rglob("*.*"):
        found = set(re.findall(r"https?://[^\s\"'`)]+", file.read_text()))
        assert found <= {"http://www.w3.org/2000/svg"}, file.name
        assert "innerHTML" not in file.read_text(), f"{file.name}: text goes in as text"
    assert {"index.html", "main.js", "style.css"} <= set(files())


@pytest.mark.parametrize(("width", "height"), WIDTHS)
async def test_every_view_fits_and_asks_this_node_alone(
    rundir: Path, width: int, height: int
) -> None:
    async with moving(rundir) as (node, _, url), tab_of(browser()) as tab:
        await node.graphs.create("g", CHAIN)
        await tab.size(width, height)
        await tab.go(url)
        for view in VIEWS:
            await tab.value(f"location.hash = '#/{view}'")
            await tab.until("document.querySelector('main').children.length === 1")
            await tab.until("document.querySelector('.pulse').dataset.state === 'good'")
            if view in ("", "graphs/g", "graphs/g/vnfs/nat"):
                await tab.until("document.querySelector('.tile .value').textContent !== '–'")
            assert await tab.value(OVERFLOW) <= 0, view
            assert await tab.value(SMALLEST) >= 11, view
        assert tab.faults == []
        foreign = {each for each in tab.requested if not each.startswith((url, "about:", "ws://"))}
        assert foreign == set()


@pytest.mark.parametrize(("width", "height"), WIDTHS)
async def test_a_graph_is_drawn_as_it_is_wired(rundir: Path, width: int, height: int) -> None:
    async with moving(rundir) as (node, driver, url), tab_of(browser()) as tab:
        await node.graphs.create("g", CHAIN)
        names = node.graphs.record("g").plan.port_names
        ports = {reference.split(" ")[1]: name for reference, name in names.items()}
        one, other = ports["vnf:firewall:port:1"], ports["vnf:nat:port:0"]
        driver.directs = [(one, other), (other, one)]
        await tab.size(width, height)
        await tab.go(f"{url}/#/graphs/g")
        await tab.until("document.querySelector('.link .rate')?.textContent.match(/[1-9]/)")
        kind = "row" if width > 640 else "column"
        assert await tab.value(f"document.querySelector('.drawing').classList.contains('{kind}')")
        # In the order of the traffic, whatever the order in the document.
        boxes = await tab.value("[...document.querySelectorAll('.box')].map((e) => e.dataset.box)")
        assert boxes == ["endpoint:left", "vnf:firewall", "vnf:nat", "endpoint:right"]
        axis = "x" if kind == "row" else "y"
        places = await tab.value(
            "[...document.querySelectorAll('.box > rect')]"
            f".filter((e) => !e.classList.length).map((e) => e.getBoundingClientRect().{axis})"
        )
        assert places == sorted(places)
        link = await texts(tab, "[data-port='vnf:nat:port:1'] text")
        assert near(link[0], 20_000) and near(link[1], 30_000) and link[2] == ""
        (lost,) = await texts(tab, "[data-port='vnf:firewall:port:0'] .dropped")
        assert lost.startswith("✕") and near(lost, 700)
        assert all(near(shown, 50_000) for shown in await texts(tab, ".labels .past"))
        assert len(await texts(tab, ".direct")) == 2
        paths = await texts(tab, ".labels .rate:not(.past)")
        assert len(paths) == 6 and all(near(shown, 40_000) for shown in paths)
        # What moves is drawn so; what passes by a direct link does not move on the switch's links.
        assert await tab.value("document.querySelectorAll('.bypassed [data-moves]').length") == 0
        assert await tab.value("document.querySelectorAll('.link [data-moves]').length") == 8
        firewall = await texts(tab, "[data-box='vnf:firewall'] .detail")
        assert firewall[0] == "firewall · process" and "250 cyc/pkt" in " ".join(firewall)
        states = "[...document.querySelectorAll('a.box')].map((e) => e.dataset.state)"
        assert await tab.value(states) == ["up", "up"]
        rows = await tab.value("[...document.querySelectorAll('tbody tr')].map((e) => e.innerText)")
        assert any("nat" in row and "250" in row and "25 %" in row for row in rows)
        # A VNF that ends is seen.
        node_vnfs = driver.world
        node_vnfs.change("its end", lambda held: held["vnfs"].clear())
        await tab.until(f"{states}.every((state) => state === 'down')")
        await tab.until("document.querySelector('h1 .state').dataset.state === 'error'")
        assert tab.faults == []


async def test_deploy_edit_and_delete_with_login(rundir: Path) -> None:
    async with (
        moving(rundir, rest={"login": True}) as (node, _, url),
        tab_of(browser()) as tab,
    ):
        node.users.add(User("ann", "admin"), hash_of("correct horse"))
        await tab.go(f"{url}/#/deploy")
        for password, answer in (("wrong horse", "wrong user or password"), ("correct horse", "")):
            await write(tab, "username", "ann")
            await write(tab, "password", password)
            await click(tab, "form button")
            if answer:
                await tab.until(f"document.querySelector('.error').textContent === '{answer}'")
        await tab.until("document.querySelectorAll('[name=example] option').length > 3")
        assert await tab.value("document.querySelector('.user').textContent") == "ann"
        await write(tab, "document", "{ no JSON")
        await tab.until("document.querySelector('.error').textContent.includes('no JSON')")
        await write(tab, "id", "mine")
        await write(tab, "document", json.dumps({"forwarding-graph": {"VNFs": [{"id": "v"}]}}))
        await click(tab, "form .primary")
        # The node's own words, with the place.
        await tab.until("document.querySelector('.error').textContent.includes('VNFs[0]')")
        await write(tab, "example", "pass")
        await tab.until("document.querySelector('textarea').value.includes('vnf_template')")
        await click(tab, "form .primary")
        await tab.until("location.hash === '#/graphs/mine'")
        await tab.until("document.querySelector('h1 .state').textContent === 'complete'")
        assert node.graphs.record("mine") and node.users.owner("mine") == ("ann", "admin")
        # Edit: one rule less.
        await click(tab, "a[href='#/graphs/mine/edit']")
        await tab.until("document.querySelector('textarea')?.value.includes('vnf_template')")
        shown = json.loads(await tab.value("document.querySelector('textarea').value"))
        shown["forwarding-graph"]["big-switch"]["flow-rules"].pop()
        await write(tab, "document", json.dumps(shown))
        await click(tab, "form .primary")
        await tab.until("location.hash === '#/graphs/mine'")
        rules = node.graphs.record("mine").document["forwarding-graph"]["big-switch"]["flow-rules"]
        assert rules == shown["forwarding-graph"]["big-switch"]["flow-rules"]
        # Events have come meanwhile, by WebSocket, with the token.
        await tab.value("location.hash = '#/events'")
        await tab.until("document.querySelector('tbody').innerText.includes('graph-updated')")
        # Delete: not before it is confirmed.
        await tab.value("location.hash = '#/graphs/mine'")
        await click(tab, "main .danger")
        await click(tab, "dialog[open] button:not(.danger)")
        assert await tab.value("document.querySelector('dialog')") is None
        assert node.graphs.record("mine")
        answered_late(node)
        await click(tab, "main .danger")
        await click(tab, "dialog[open] .danger")
        await tab.until("location.hash === '#/'")
        await tab.until("document.querySelector('.empty').checkVisibility()")
        assert node.graphs.records() == []
        await click(tab, "header .session button")
        await tab.until("document.querySelector('[name=password]')")
        assert await tab.value("sessionStorage.length") == 0
        faults = [fault for fault in tab.faults if "401" not in fault and "400" not in fault]
        assert faults == []


async def test_users_are_added_and_removed(rundir: Path) -> None:
    async with (
        moving(rundir, rest={"login": True}) as (node, _, url),
        tab_of(browser()) as tab,
    ):
        node.users.add(User("ann", "admin"), hash_of("correct horse"))
        await tab.go(f"{url}/#/users")
        await write(tab, "username", "ann")
        await write(tab, "password", "correct horse")
        await click(tab, "form button")
        await tab.until("document.querySelector('tbody')?.innerText.includes('ann')")
        for name, text in (
            ("new-user", "bob"),
            ("new-group", "lab"),
            ("new-password", "long enough"),
        ):
            await write(tab, name, text)
        await write(tab, "max_graphs", "3")
        await click(tab, "form .primary")
        await tab.until("document.querySelector('tbody').innerText.includes('bob')")
        added = node.users.find("bob")
        assert added is not None and (added.group, added.quota.graphs) == ("lab", 3)
        assert added.quota.cores is None and not added.may_exec
        await write(tab, "new-user", "bob")
        await write(tab, "new-group", "lab")
        await write(tab, "new-password", "long enough")
        await click(tab, "form .primary")
        await tab.until("document.querySelector('.error').textContent.includes('bob')")
        await click(tab, "[data-remove=bob]")
        await click(tab, "dialog[open] .danger")
        await tab.until("!document.querySelector('tbody').innerText.includes('bob')")
        assert node.users.find("bob") is None
        assert [fault for fault in tab.faults if "401" not in fault] == []


async def test_the_api_is_shown_from_this_machine(rundir: Path) -> None:
    async with moving(rundir) as (_, _, url), tab_of(browser()) as tab:
        await tab.go(f"{url}/docs")
        await tab.until("document.querySelector('#api')?.innerText.includes('/NF-FG/{graph_id}')")
        assert tab.faults == []
        foreign = [each for each in tab.requested if not each.startswith((url, "about:", "data:"))]
        assert foreign == []


async def test_names_are_text(rundir: Path) -> None:
    """What a client calls its graph is never HTML, and its events are shown as they are."""
    hostile = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>'
    graph = json.loads(json.dumps(CHAIN))
    graph["forwarding-graph"]["name"] = hostile
    async with moving(rundir) as (node, _, url), tab_of(browser()) as tab:
        await node.graphs.create("<b>g", graph)
        await tab.go(f"{url}/#/")
        await tab.until("document.querySelector('tbody').innerText.includes('onerror')")
        await click(tab, "tbody a")
        await tab.until("document.querySelector('.drawing') && document.querySelector('h1')")
        assert "<b>g" in await tab.value("document.querySelector('h1').textContent")
        await tab.until("document.querySelector('main').innerText.includes('onerror')")
        assert await tab.value("window.hit ?? null") is None
        assert (
            await tab.value("document.querySelectorAll('main img, main b, main script').length")
            == 0
        )


async def test_a_log_is_followed_and_words_are_parted(rundir: Path) -> None:
    async with moving(rundir) as (node, _, url), tab_of(browser()) as tab:
        await node.graphs.create("g", CHAIN)
        log = node.log_of("g", "nat")
        log.parent.mkdir(exist_ok=True)
        log.write_text("first\n")
        await tab.go(f"{url}/#/graphs/g/vnfs/nat")
        await tab.until("document.querySelector('.log').textContent === 'first\\n'")
        with log.open("a") as file:
            file.write("second <i>line</i>\n")
        await tab.until("document.querySelector('.log').textContent.endsWith('</i>\\n')")
        await click(tab, "details:has(form) summary")
        await write(tab, "command", "say 'two words' \"and three more\" x")
        await click(tab, "form.line button")
        output = "document.querySelector('details:has(form) .log').textContent"
        await tab.until(f"{output}.includes('exit code 3')")
        shown = await tab.value(output)
        assert shown.startswith("nat say two words and three more x")
        words = await tab.value(
            "import('/ui/views/vnf.js').then((m) => m.wordsOf(`a 'b c' \"d e\" f`))"
        )
        assert words == ["a", "b c", "d e", "f"]


async def test_a_node_that_does_not_answer_is_seen(rundir: Path) -> None:
    async with tab_of(browser()) as tab:
        async with moving(rundir) as (node, _, url):
            await node.graphs.create("g", CHAIN)
            await tab.go(f"{url}/#/graphs/g")
            await tab.until("document.querySelector('.drawing')")
            await tab.until("document.querySelector('.pulse').dataset.state === 'good'")
        await tab.until("document.querySelector('.pulse').dataset.state === 'bad'")
        assert "does not answer" in await tab.value("document.querySelector('.banner').textContent")
        # What was known stays.
        assert await tab.value("document.querySelectorAll('.box').length") == 4
