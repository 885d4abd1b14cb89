"""Pages in a headless Chromium: no error of a script, the keyboard, both themes, a phone's width.

Skipped where there is no Chromium, or no Playwright to drive it (extra ``pages``).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tawa.runtime.explain.explanation import Explanation
from tawa.runtime.history.process_report import ProcessReport
from tests.runtime.page.conftest import explained
from tests.runtime.page.test_other_pages import KERNELS

api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install 'tawa[pages]'")
NAMES = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason=f"no Chromium: none of {', '.join(NAMES)}, and CHROMIUM is not set"
)
PHONE, DESK = {"width": 380, "height": 800}, {"width": 1280, "height": 900}
PAGES = ("gemm", "blackwell", "declined", "refuted", "report")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, refuted: Explanation) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    texts = {name: explained(name).to_html() for name in PAGES[:3]}
    texts |= {"refuted": refuted.to_html(), "report": ProcessReport(KERNELS, 88.0).to_html()}
    paths = {name: folder / f"{name}.html" for name in texts}
    for name, path in paths.items():
        path.write_text(texts[name], encoding="utf-8")
    return paths


class Opened:
    """A page in a browser, and what it complained of or asked for."""

    def __init__(self, browser: Any, path: Path, size: dict[str, int] = DESK, theme: str = "light") -> None:
        self.tab = browser.new_page(viewport=size, color_scheme=theme)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.tab.on("console", lambda it: self.said.append(it.text))
        self.tab.on("pageerror", lambda it: self.said.append(str(it)))
        self.tab.on("request", lambda it: self.asked.append(it.url))
        self.tab.goto(path.as_uri())
        self.url = path.as_uri()

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.tab.close()
        assert self.said == [] and self.asked == [self.url]

    def style(self, selector: str, name: str) -> str:
        return self.tab.evaluate(f"getComputedStyle(document.querySelector({selector!r})).{name}")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_without_an_error_in_both_themes(
    browser: Any, saved: dict[str, Path], name: str, theme: str
) -> None:
    with Opened(browser, saved[name], theme=theme) as page:
        charts = page.tab.locator(".chart")
        assert page.tab.locator(".chart canvas").count() == charts.count()
        assert page.tab.evaluate("document.documentElement.dataset.theme") == theme
        back = page.style("body", "backgroundColor")
        assert (back == "rgb(255, 255, 255)") == (theme == "light")
        page.tab.click("#theme")
        assert page.style("body", "backgroundColor") != back


@pytest.mark.parametrize("name", PAGES)
def test_the_body_of_a_page_does_not_scroll_sideways_on_a_phone(
    browser: Any, saved: dict[str, Path], name: str
) -> None:
    with Opened(browser, saved[name], size=PHONE) as page:
        assert page.tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        wide = "[...document.querySelectorAll('section')].filter(it => it.getBoundingClientRect().right > innerWidth)"
        assert page.tab.evaluate(f"{wide}.length") == 0


def test_arrow_keys_step_through_the_run_that_goes_wrong(
    browser: Any, saved: dict[str, Path], refuted: Explanation
) -> None:
    assert refuted.verdict is not None
    steps = refuted.verdict["witness"]["steps"]
    with Opened(browser, saved["refuted"]) as page:

        def now() -> int:
            assert page.tab.locator("#run tr.now").count() == 1
            return int(page.tab.locator("#run tr.now th").inner_text())

        assert now() == 1
        for expected in (2, 3, 4):
            page.tab.keyboard.press("ArrowRight")
            assert now() == expected
        page.tab.keyboard.press("ArrowLeft")
        assert now() == 3
        assert page.tab.locator("#step").inner_text().startswith(f"step 3 of {len(steps)}: {steps[2]['partition']}")
        assert page.tab.locator(".code .here").get_attribute("data-line") == steps[2]["location"]
        page.tab.locator(".run").focus()
        page.tab.keyboard.press("End")
        assert now() == len(steps)
        page.tab.keyboard.press("ArrowDown")
        assert now() == len(steps)
        last = page.tab.locator("#places td.now").inner_text()
        assert last == f"{steps[-1]['action']} ({steps[-1]['partition']})"
        page.tab.keyboard.press("Home")
        page.tab.click("[data-step='1']")
        assert now() == 2


def test_the_timeline_zooms_by_keys_and_buttons(browser: Any, saved: dict[str, Path]) -> None:
    with Opened(browser, saved["gemm"]) as page:
        place = page.tab.locator("#chart-timeline")
        place.focus()
        page.tab.keyboard.press("+")
        assert place.get_attribute("data-zoom") == "25.00..75.00"
        page.tab.keyboard.press("ArrowRight")
        assert place.get_attribute("data-zoom") == "37.50..87.50"
        page.tab.click("[data-zoom='out']")
        assert place.get_attribute("data-zoom") == "0.00..100.00"


def test_hovering_and_clicking_a_span_say_what_it_is(browser: Any, saved: dict[str, Path]) -> None:
    with Opened(browser, saved["gemm"]) as page:
        box = page.tab.locator("#chart-timeline").bounding_box()
        page.tab.evaluate("document.querySelector('#chart-timeline').scrollIntoView()")
        box = page.tab.locator("#chart-timeline").bounding_box()
        assert box is not None
        busy = box["x"] + box["width"] / 2, box["y"] + 26 + 30 + 2.5 * 22  # the third row of stock Triton: tensor cores
        page.tab.mouse.move(*busy)
        page.tab.wait_for_function("document.body.innerText.includes('tensor cores: matrix multiply')")
        page.tab.mouse.click(*busy)
        assert page.tab.locator("#span").inner_text().startswith("tensor cores: matrix multiply (")
        assert "tl.dot" in page.tab.locator(".code .here code").inner_text()


def test_arrow_keys_move_through_the_lines_of_the_source(browser: Any, saved: dict[str, Path]) -> None:
    with Opened(browser, saved["gemm"], size=PHONE) as page:
        page.tab.locator(".code").focus()
        for _ in range(5):
            page.tab.keyboard.press("ArrowDown")
        assert "for k in range" in page.tab.locator(".code .current code").inner_text()
        assert page.tab.locator(".code .current .work").is_visible()
        page.tab.keyboard.press("ArrowUp")
        assert "tl.zeros" in page.tab.locator(".code .current code").inner_text()
