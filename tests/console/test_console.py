"""The console in Debian's Chromium, over the real daemon: what it shows, what it changes, what it withstands."""

import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from tests.console.conftest import LONG, MANY, SHOWN, Page
from tests.helpers import Live, echo, jsonl

pytestmark = pytest.mark.xdist_group("console")  # one daemon and one browser for all


def test_trajectories(page: Page) -> None:
    """The list has all trajectories, thousands of them in few elements; alarms stand out, and figures are above."""
    page.open()
    page.says(".told", "trajectories")
    page.wait(lambda: int(re.sub(r"\D", "", page.text(".told"))) > MANY)

    assert len(page.all(".row")) < 60
    page.says(".figure-fpr", "false positives")
    page.says(".figure-abstention", "%")
    page.says("#connection", "live")
    assert re.match(r"\([1-9]\d*\) Trajectories", page.driver.title)


def test_filters_are_in_the_address(page: Page) -> None:
    """A search, a select and a toggle narrow the list down; the address says so and leads back to it."""
    page.open()
    page.one(".row")
    page.press("/")
    page.press(*"config-dr")
    page.says(".told", "1 trajectory")
    Select(page.one("select[data-filter=verdict]")).select_by_value("off_path")
    page.one("button[data-filter=alarm]").click()
    page.wait(lambda: "alarm=open" in page.driver.current_url)
    assert "q=config-dr" in page.driver.current_url
    assert "verdict=off_path" in page.driver.current_url

    page.driver.refresh()
    page.says(".row", "config-drift")
    assert page.one("button[data-filter=alarm]").get_attribute("aria-pressed") == "true"
    page.go("?q=nobody-is-called-so")
    page.says(".state", "No trajectory fits")
    page.one(".state button").click()
    page.says(".row", "job-")


def test_step(page: Page) -> None:
    """A step shows predicted against observed, what decided, what was checked, limits, times, and the log's record."""
    page.open(page.verdict("config-drift", 7))
    page.says(".step h1", "Step 7")
    page.says(".badge", "off path")

    assert page.text(".diff .predicted mark.change") == "false"
    assert page.text(".diff .observed mark.change.deciding") == "true"  # the whole word, not what differs of it
    assert "All lines" not in page.text(".step")  # none is left out
    page.says(".signals", "expected “false”, observed “true”")
    page.says(".checks", "All of the observation's text was pinned")
    page.says(".checks", "The exit status was compared")
    page.says(".step", "Evidence of the trajectory 1, above the level 0")
    page.says(".facts", "prediction")
    page.says(".facts", "off-path.jsonl at byte")
    page.run("document.querySelector('details.raw').open = true")
    page.says(".raw pre", "cat service.toml")


def test_thresholds_in_words(page: Page) -> None:
    """Score, p-value and coverage are told in words; a log that has gone is said to have."""
    page.open(page.verdict("whole", 1))
    page.says(".step", "Score 0.5 (0 is as predicted), above 0.25")
    page.says(".step", "so odd or odder are 0.3 % of clean steps")
    page.says(".checks", "the other 25 % could be anything")
    page.run("document.querySelector('details.raw').open = true")
    page.says(".raw", "not there any more")


def test_surprise(page: Page) -> None:
    """Token surprise is a heat map over what was observed, warmer where the model expected less."""
    page.open(page.verdict("whole", 3))
    page.says(".step", "Nobody could predict it")
    switch = page.one(".controls .switch")
    assert switch.text == "Token surprise"
    switch.click()

    warmth = page.run(
        "return [...document.querySelectorAll('.diff mark.heat')]"
        ".map((mark) => Number(/heat-(\\d)/.exec(mark.className)[1]))"
    )
    assert warmth == sorted(warmth)
    assert {1, 6} <= set(warmth)
    assert page.all(".legend")


def test_labels_reach_the_metrics(page: Page) -> None:
    """A label asks for the token once, is counted in /metrics and in the figures, and can be taken back."""

    def false_positives() -> float:
        families = {family.name: family for family in text_string_to_metric_families(page.daemon.get("/metrics")[1])}
        return sum(sample.value for sample in families["verifierd_false_positives"].samples)

    page.lock()
    page.open(page.verdict("stale-count", 6))
    page.one("button[data-label=on_path]").click()
    page.one("dialog #token").send_keys("wrong")
    page.one("dialog button[type=button]").click()  # thought better of it
    page.says(".history, .labels", "")
    assert page.one("button[data-label=on_path]").get_attribute("aria-pressed") == "false"

    page.one(".said input").send_keys("the count is right")
    page.one("button[data-label=on_path]").click()
    page.unlock()
    page.says(".history", "the count is right")
    assert page.one("button[data-label=on_path]").text == "False alarm"
    page.wait(lambda: false_positives() == 1)
    page.says(".figure-fpr b", "100 %")
    page.says(".row[aria-selected=true] .chip-label", "on path")

    page.one(".toast button").click()
    page.wait(lambda: false_positives() == 0)
    page.says(".history .undone", "the count is right")
    assert not page.run("return document.cookie")  # scripts see none
    kept = page.driver.get_cookie("verifierd_session")
    assert kept is not None
    assert kept["httpOnly"]
    assert kept["sameSite"] == "Strict"


def test_a_private_daemon(page: Page, tmp_path: Path) -> None:
    """Where reading needs the token, too, it is asked for once, and all that was refused is then shown."""
    (tmp_path / "config.toml").write_text("[http]\nport = 0\nallow-remote = true\n", encoding="utf-8")
    (tmp_path / "a.jsonl").write_bytes(jsonl(*echo("secret", 1)))
    with Live(tmp_path / "state", tmp_path / "a.jsonl", "--config", tmp_path / "config.toml") as daemon:
        daemon.wait(lambda: daemon.steps == [("secret", 1)])
        private = Page(page.driver, daemon)
        private.lock()
        private.open()
        private.unlock()
        private.says(".row", "secret")
        private.says(".figure-abstention", "%")
        private.says("#connection", "live")
        assert all("401" in entry for entry in private.log())
        private.driver.get("about:blank")
    page.log("performance")


def test_a_wrong_token_is_refused(page: Page) -> None:
    """Who gives another token is told so, and may try again."""
    page.lock()
    page.open("alarms")
    page.says(".card", "config-drift")
    page.one(".card.alarmed button").click()
    page.one("dialog #token").send_keys("0" * 64, Keys.ENTER)
    page.says("dialog [role=alert]", "That is not the token")
    (refused,) = page.log()  # the browser notes it itself
    assert "401" in refused
    page.press(Keys.ESCAPE)
    page.wait(lambda: not page.all("dialog"))


def test_alarms_are_acknowledged(page: Page) -> None:
    """An alarm leads to its step, and counts as open until somebody acknowledges it."""
    page.open("alarms")
    page.says(".card", "whole step 1")
    before = page.look("/api/alarms")["open"]
    card = next(card for card in page.all(".card") if "whole" in card.text)
    card.find_element(By.CSS_SELECTOR, "button").click()
    page.wait(lambda: page.all("dialog") or page.look("/api/alarms")["open"] < before)
    if page.all("dialog"):
        page.unlock()
    page.says(".figure-alarms b", str(before - 1))
    page.says(".card", "Acknowledged")

    page.run("[...document.querySelectorAll('.card a')].find((a) => a.textContent.includes('whole')).click()")
    page.says(".step h1", "Step 1")
    assert "#/t/" in page.driver.current_url


def test_figures_quarantine_and_unknown_records(page: Page) -> None:
    """Rates with their intervals, lines that could not be read, and unknown record types have a page each."""
    page.open("figures")
    page.says(".card.figure-fnr", "Between")
    page.says(".card.figure-abstention", "verdicts")
    page.says(".card.figure-budget", "The policy is not calibrated")

    page.go("quarantine")
    page.says(".row", "hostile.jsonl")
    page.says(".row", "/logs/<i>49.jsonl")
    page.go("unknown")
    page.says("td", "new_type")


def test_what_happens_appears(page: Page, daemon_logs: Path) -> None:
    """New steps, of a trajectory that is known or not, appear without a reload; so do labels from elsewhere."""
    page.open("?q=live")
    page.says(".row", "3 steps")
    with (daemon_logs / "live.jsonl").open("ab") as log:
        log.write(jsonl(*echo("live", 2, first=4), *echo("live-too", 1)))
    page.says(".row", "5 steps")
    page.says(".row", "live-too")

    page.go(page.verdict("live", 5))
    page.says(".step h1", "Step 5")
    with (daemon_logs / "live.jsonl").open("ab") as log:
        log.write(jsonl(*echo("live", 1, first=6)))
    page.says(".timeline .row", "echo word-6")
    status, _ = page.daemon.post(
        "/api/labels",
        json.dumps({"id": page.verdict("live", 5).split("/")[-1], "label": "unsure", "by": "ada"}).encode(),
    )
    assert status == 200
    page.says(".history", "unsure by ada")
    page.says(".timeline .chip-label", "unsure")


def test_a_long_trajectory(page: Page) -> None:
    """5,000 steps scroll and jump in few elements, and a link leads to one in the middle of them."""
    trajectory = page.trajectory("long")
    page.open(f"t/{trajectory}")
    page.says(".told", f"{LONG:,} steps")
    page.one(".list").click()
    page.press(Keys.END)
    page.says(".row[aria-selected=true]", f"{LONG:,}")
    assert len(page.all(".row")) < 60
    slowest = page.driver.execute_async_script(
        """const done = arguments[0], list = document.querySelector(".list");
        let last = performance.now(), worst = 0, turn = 0;
        const frame = (now) => {
            worst = Math.max(worst, now - last);
            last = now;
            list.scrollTop = (turn * 7919) % list.scrollHeight;
            if (++turn < 30) requestAnimationFrame(frame);
            else done([worst, document.querySelectorAll(".row").length]);
        };
        requestAnimationFrame(frame);"""
    )
    assert slowest[1] < 60

    second = page.look(f"/api/trajectories/{trajectory}/steps?limit=1&after=0")["steps"][0]["seq"]
    middle = page.look(f"/api/trajectories/{trajectory}/steps?limit=1&after={second + 3000}")["steps"][0]
    page.open(f"t/{trajectory}/{middle['verdict_id']}")
    page.says(".row[aria-selected=true]", f"{middle['step']:,}")
    page.says(".step h1", f"Step {middle['step']:,}")


def test_hostile_content_is_text(page: Page) -> None:
    """Markup, escapes, bidi controls, half characters and lines of a megabyte are shown as text, and do nothing."""
    page.open("?q=hostile")
    page.says(".row", "hostile <b>")
    for name in ("hostile <b>", "whole"):
        page.go(page.verdict(name, 1))
        page.says(".step h1", "Step 1")
        page.says(".diff .observed", SHOWN if name == "whole" else SHOWN.removesuffix("\\ud800"))
    page.says(".signals", "it was <b>so</b>")
    page.go(page.verdict("whole", 2))
    page.says(".step h1", "Step 2")
    page.says(".diff mark.deciding", "B")
    assert page.run("return document.querySelector('.diff').textContent.length") < 20_000
    page.go(page.verdict("hostile <b>", 2))
    page.says(".step h1", "Step 2")

    assert "owned" not in page.driver.title
    assert page.run("return document.querySelectorAll('main img, main script, main i').length") == 0


def test_keys_alone(page: Page) -> None:
    """From the list to a label and back without a mouse."""
    page.open("?q=config-drift")
    page.one(".row")
    page.press("j", Keys.ENTER)
    page.says(".timeline .told", "steps")
    page.press("j", "j", Keys.ENTER)
    page.says(".step h1", "Step 2")
    page.press("j")
    page.says(".step h1", "Step 3")
    page.press("k")
    page.says(".step h1", "Step 2")
    page.press("l", "u")
    page.wait(lambda: page.all("dialog") or page.all(".history"))
    if page.all("dialog"):
        page.unlock()
    page.says(".history", "unsure")
    page.press("l", "z")
    page.says(".history .undone", "unsure")
    page.press("?")
    page.says("dialog", "search")
    page.press(Keys.ESCAPE)
    page.wait(lambda: not page.all("dialog"))
    page.press(Keys.ESCAPE)
    page.wait(lambda: page.driver.current_url.endswith(page.trajectory("config-drift")))
    page.press(Keys.ESCAPE)
    page.says(".trajectories .told", "trajectories")
    page.press("g", "f")
    page.says("main h1", "Figures")


def test_a_phone(page: Page) -> None:
    """At 390 pixels nothing is cut off sideways, and a step takes the timeline's place."""
    page.size(390, 800)
    step = page.verdict("config-drift", 7)
    page.open()
    for route in ("alarms", "figures", "quarantine", "unknown", step.rpartition("/")[0], step, ""):
        page.go(route)
        page.wait(lambda: not page.all(".state-loading"))
        assert page.run("return [innerWidth, document.documentElement.scrollWidth]") == [390, 390], route
    page.go(step)
    page.says(".step h1", "Step 7")
    assert not page.all(".timeline")
    page.one(".step-bar .back").click()
    page.one(".timeline .row")


def test_themes(page: Page) -> None:
    """The theme is the system's until another is chosen, which lasts; text keeps its contrast in both."""
    page.open(page.verdict("config-drift", 7))
    page.one(".diff")
    for theme in ("light", "dark"):
        while page.run("return document.documentElement.dataset.theme ?? ''") != theme:
            page.one("#theme").click()
        assert page.run(_FAINT) == [], theme
    page.driver.refresh()
    assert page.run("return document.documentElement.dataset.theme") == "dark"
    page.one("#theme").click()
    assert page.run("return document.documentElement.dataset.theme ?? ''") == ""


def test_it_can_be_read_out(page: Page) -> None:
    """Everything that can be used has a name and can be reached by keys; the list tells which row is active."""
    page.open()
    for route in ("", "alarms", "figures", page.verdict("config-drift", 7)):
        page.go(route)
        page.wait(lambda: not page.all(".state-loading"))
        assert page.run(_NAMELESS) == [], route
    page.wait(lambda: page.all(".row[aria-selected=true]"))
    active = page.run("return document.querySelector('[role=listbox]').getAttribute('aria-activedescendant')")
    assert page.driver.find_element(By.ID, active).get_attribute("aria-selected") == "true"


def test_trouble_is_told(page: Page) -> None:
    """What does not exist, and a daemon that does not answer, are said in words with a way out."""
    page.open("t/nothing")
    page.says(".state-trouble", "no such trajectory")
    page.open("v/ffffffffffffffffffffffffffffffff")
    page.says(".state-trouble", "no such verdict")
    assert all("404" in entry for entry in page.log())

    trajectory = page.trajectory("config-drift")
    page.open()
    page.one(".row")
    page.says("#connection", "live")
    offline = {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    page.driver.execute_cdp_cmd("Network.enable", {})
    page.driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    try:
        page.go(f"t/{trajectory}")
        page.says(".timeline .state-trouble", "does not answer")
        assert page.run("return document.querySelector('.state-trouble svg').getBBox().width") > 0
    finally:
        page.driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline | {"offline": False})
    page.log()
    page.one(".timeline .state-trouble button").click()
    page.says(".timeline .row", "cat service.toml")


def test_what_differs(page: Page) -> None:
    """Lines are matched before words, characters beyond the basic plane count once, and both sides stay whole."""
    page.open()
    found = page.driver.execute_async_script(
        """const done = arguments[0];
        import("/console/diff.js").then(({ compare, utf16 }) => {
            const rows = compare("a\\nport = 80\\nb\\n", "a\\nport = 81\\nnew\\nb\\n");
            const side = (name) => rows.filter((row) => row[name]).map((row) => [row[name].text, row[name].changes]);
            done([side("left"), side("right"), utf16("x😀y😀z")(2), utf16("x😀y😀z")(5)]);
        });"""
    )
    assert found == [
        [["a", []], ["port = 80", [[7, 9]]], ["b", []]],
        [["a", []], ["port = 81", [[7, 9]]], ["new", [[0, 3]]], ["b", []]],
        3,
        7,
    ]


_NAMELESS = """return [...document.querySelectorAll("button, a, input, select, [role=listbox], [role=img]")]
    .filter((e) => e.checkVisibility() && !(e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.length))
    .map((e) => e.outerHTML)"""

# Texts whose contrast with what is behind them is below 4.5 to 1.
_FAINT = r"""
    const channels = (colour) => (colour.match(/[\d.]+/g) ?? []).map(Number);
    const linear = (c) => (c <= 10.31475 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
    const light = (rgb) => rgb.slice(0, 3).map(linear)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = (element) => {
        for (let e = element; e; e = e.parentElement) {
            const rgb = channels(getComputedStyle(e).backgroundColor);
            if (rgb.length === 3 || rgb[3] === 1) return rgb;
        }
        return [255, 255, 255];
    };
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
        if (element.closest(":disabled, .unseen")) continue;
        const [a, b] = [light(channels(getComputedStyle(element).color)), light(behind(element))];
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < 4.5) found.push([walker.currentNode.data.trim().slice(0, 40), element.className, contrast]);
    }
    return found;
"""
