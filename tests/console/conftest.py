"""One real daemon with much in its database, and one browser that looks at it."""

import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest
from msgspec import UNSET
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from tests.helpers import Live, claude, echo, jsonl, native
from verifierd.sanitize import Sanitizer, render
from verifierd.store import Commit, Quarantined, Raised, Store, StoredStep
from verifierd.types import Action, Alarm, Origin, Signal, Step, Verdict, VerdictKind, digest

SAMPLES = Path(__file__).parents[2] / "replay" / "trajectories"
LONG = 5000
MANY = 2000
_MARKUP = "<img src=x onerror=\"document.title='owned'\"><script>alert(1)</script>"
HOSTILE = f"{_MARKUP} \x1b[31mred\x1b]0;t\x07 \u202eevil\u202c \ud800"
SHOWN = f"{_MARKUP} \\x1b[31mred\\x1b]0;t\\x07 \\u202eevil\\u202c \\ud800"
"""What of it is to be read on the page."""

BIG = 1_000_000


class Page:
    """What a test does with the browser.

    Args:
        driver: The browser.
        daemon: What it looks at.
    """

    def __init__(self, driver: webdriver.Chrome, daemon: Live) -> None:
        self.driver = driver
        self.daemon = daemon

    def open(self, route: str = "") -> None:
        """Load the page anew, at a route."""
        self.driver.get("about:blank")
        self.driver.get(f"{self.daemon.url}/console/#/{route}")
        self.wait(lambda: self.run("return document.querySelector('main').childElementCount > 0"))

    def go(self, route: str) -> None:
        """Go to a route within the page that is loaded."""
        self.run("location.hash = arguments[0]", f"#/{route}")

    def run(self, script: str, *arguments: object) -> Any:
        """What a script returns."""
        return self.driver.execute_script(script, *arguments)

    def all(self, css: str) -> list[WebElement]:
        """The elements of a selector that are seen."""
        script = "return [...document.querySelectorAll(arguments[0])].filter((element) => element.checkVisibility())"
        return list(self.run(script, css))

    def one(self, css: str) -> WebElement:
        """The first one that is seen, as soon as there is one."""
        self.wait(lambda: self.all(css), css)
        return self.all(css)[0]

    def text(self, css: str) -> str:
        """The text of an element, hidden parts included."""
        self.one(css)
        return str(self.run("return document.querySelector(arguments[0])?.textContent ?? ''", css))

    def says(self, css: str, text: str) -> None:
        """Wait until an element's text has this in it."""
        self.wait(
            lambda: self.run(
                "return [...document.querySelectorAll(arguments[0])].some((e) => e.textContent.includes(arguments[1]))",
                css,
                text,
            ),
            f"{css}: {text}",
        )

    def press(self, *keys: str) -> None:
        """Type where the focus is."""
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def wait(self, ready: Callable[[], Any], what: str = "", seconds: float = 20) -> None:
        """Wait until something is so."""
        end = time.monotonic() + seconds
        while True:
            try:
                if ready():
                    return
            except StaleElementReferenceException:
                pass
            assert time.monotonic() < end, f"{what}\n{self.run('return document.body.innerText')[:2000]}"
            time.sleep(0.02)

    def size(self, width: int, height: int) -> None:
        """The window's inside."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700},
        )

    def unlock(self) -> None:
        """Give the token where it is asked for."""
        self.one("dialog #token").send_keys((self.daemon.out.parent / "token").read_text().strip())
        self.press(Keys.ENTER)
        self.wait(lambda: not self.all("dialog"))

    def lock(self) -> None:
        """End the session."""
        self.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})

    def log(self, kind: str = "browser") -> list[str]:
        """What the browser noted since the last look."""
        return [entry["message"] for entry in self.driver.get_log(kind)]  # type: ignore[no-untyped-call]

    def look(self, path: str) -> Any:
        """What the daemon answers."""
        status, body = self.daemon.get(path)
        assert status == 200, body
        return json.loads(body)

    def trajectory(self, name: str) -> str:
        """The id of a trajectory in routes."""
        found = self.look(f"/api/trajectories?limit=1000&q={quote(name)}")["trajectories"]
        return str(next(one["id"] for one in found if one["trajectory"] == name))

    def verdict(self, name: str, step: int) -> str:
        """The route of a step."""
        trajectory = self.trajectory(name)
        steps = self.look(f"/api/trajectories/{trajectory}/steps?limit=1000")["steps"]
        return f"t/{trajectory}/{next(one['verdict_id'] for one in steps if one['step'] == step)}"


@pytest.fixture(scope="module")
def daemon_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the daemon follows: the bundled samples, a hostile log, and one that grows."""
    logs = tmp_path_factory.mktemp("console") / "logs"
    shutil.copytree(SAMPLES, logs)
    (logs / "hostile.jsonl").write_bytes(
        jsonl(
            native("hostile <b>", 1, f"echo {HOSTILE}", HOSTILE, exit_code=0),
            native("hostile <b>", 2, "echo a", "a" * BIG, exit_code=0),
        )
        + b"this is no JSON\n"
    )
    (logs / "unknown.jsonl").write_bytes(
        jsonl(*claude("unknown", [("toolu_1", "echo a", "a")]), {"type": "new_type", "sessionId": "unknown"})
    )
    (logs / "live.jsonl").write_bytes(jsonl(*echo("live", 3)))
    return logs


@pytest.fixture(scope="module")
def daemon(driver: webdriver.Chrome, daemon_logs: Path) -> Iterator[Live]:  # noqa: ARG001 (without it there is no use)
    """A daemon that follows logs, and remembers a long trajectory and many others."""
    state = daemon_logs.with_name("state")
    anyio.run(_fill, state)
    with Live(state, daemon_logs, "--port", "0") as live:
        live.wait(lambda: {("config-drift", 7), ("stale-count", 6), ("live", 3), ("hostile <b>", 2)} <= set(live.steps))
        yield live


@pytest.fixture(scope="module")
def driver() -> Iterator[webdriver.Chrome]:
    """Debian's Chromium without a screen."""
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        pytest.skip("chromium and chromedriver are not installed (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(chromedriver))
    yield driver
    driver.quit()


@pytest.fixture
def page(driver: webdriver.Chrome, daemon: Live) -> Iterator[Page]:
    """The browser at a desk's size; afterwards nothing may have gone wrong in it, or have left the origin."""
    page = Page(driver, daemon)
    page.size(1440, 900)
    for kind in ("browser", "performance"):
        page.log(kind)
    yield page
    assert page.log() == []
    asked = [json.loads(entry)["message"] for entry in page.log("performance")]
    urls = {event["params"]["request"]["url"] for event in asked if event["method"] == "Network.requestWillBeSent"}
    assert [url for url in urls if not url.startswith((f"{daemon.url}/", "about:"))] == []
    driver.get("about:blank")


async def _fill(state: Path) -> None:
    """A trajectory of 5,000 steps, 2,000 of one, one whose texts are whole, and what quarantine keeps."""
    whole = [
        _judged("whole", 1, observed=HOSTILE + "\n", predicted="plain\n", kind="off_path", span=(0, 4)),
        _judged(
            "whole", 2, observed="a" * BIG + "B\n", predicted="a" * BIG + "\n", kind="off_path", span=(BIG, BIG + 1)
        ),
        _judged("whole", 3, observed="word " * 16 + "\n", predicted=None, kind="abstain"),
    ]

    async with Store(state) as store:
        await _keep(store, [_judged(f"job-{n:04}", 1) for n in range(MANY)])
        await _keep(
            store, [_judged("long", n, kind="off_path" if n % 617 == 0 else "on_path") for n in range(1, LONG + 1)]
        )
        await _keep(store, whole)
        bad = [Quarantined(path=f"/logs/<i>{n}.jsonl", offset=n, length=n, reason="not_json") for n in range(50)]
        await store.commit(Commit(quarantine=bad))


async def _keep(store: Store, judged: Sequence[tuple[Step, Verdict]]) -> None:
    await store.commit(
        Commit(
            steps=[StoredStep(step=step, run=0, ordinal=step.index) for step, _ in judged],
            verdicts=[verdict for _, verdict in judged],
            alarms=[
                Raised(key=step.key, run=0, verdict_id=verdict.verdict_id, step=step.index, alarm=verdict.alarm)
                for step, verdict in judged
                if verdict.alarm is not None and verdict.alarm.new
            ],
            render=render,
        )
    )


def _judged(
    trajectory: str,
    index: int,
    *,
    kind: str = "on_path",
    observed: str = "ok\n",
    predicted: str | None = "ok\n",
    span: tuple[int, int] | None = None,
) -> tuple[Step, Verdict]:
    """A step with its verdict, whole."""
    tool = ("bash", "Read", "Edit")[index % 3]
    command = f"sed -n {index}p notes.txt"
    step = Step(
        format="native",
        trajectory=trajectory,
        index=index,
        action=Action(tool=tool, input=command),
        observation=observed,
        origin=Origin(path="/logs/gone.jsonl", offset=index),
    )
    signals = () if span is None else (Signal(name="contradiction", value=1.0, span=span, detail="it was <b>so</b>"),)
    alarm = Alarm(statistic=1.0, threshold=0.0, raised=True, new=index == 1, first_bad=1) if span else None
    verdict = Verdict(
        verdict_id=digest(step.step_id, "console"),
        step_id=step.step_id,
        trajectory=trajectory,
        step=index,
        tool=tool,
        domain="terminal",
        verdict=VerdictKind(kind),
        reason={"on_path": "as_predicted", "off_path": "contradiction", "abstain": "unpredictable"}[kind],
        coverage=0.0 if kind == "abstain" else 0.75,
        score=0.5,
        threshold=0.25,
        p_value=0.003,
        signals=signals,
        alarm=alarm,
        action=command,
        predicted=predicted,
        observed=observed,
        surprise=UNSET if predicted is not None else tuple((n, n + 4, n / 5 + 0.5) for n in range(0, 80, 5)),
        predictor="shell",
        policy="default@0",
        origin=step.origin,
        time="2026-01-12T09:00:00.000Z",
    )
    return step, Sanitizer(b"salt").verdict(verdict, "full")
