"""Takes the pictures of docs/explain-html.md, in a headless Chromium: ``python -m tests.runtime.page.pictures``."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright
from typer.testing import CliRunner

from tawa.cli.main import app
from tests.rings.ladder import BK, BM, BN, FOLDER
from tests.runtime.page.conftest import RING_TYPES
from tests.runtime.page.test_browser import CHROMIUM

ROOT = Path(__file__).resolve().parents[3]
IMAGES = ROOT / "docs" / "images"
TYPES = (
    "a=tensordesc<fp16[128,64]>, b=tensordesc<fp16[64,256]>, c=tensordesc<fp16[128,256]>, M=i32:16, N=i32:16, K=i32:16"
)
GEMM = [f"{ROOT}/examples/gemm.py:gemm", "--sig", TYPES, "--const", "BM=128,BN=256,BK=64", "--num-warps", "8"]
LAUNCH = ["--option", "persistent=True", "--arg", "K=512", "--grid", "33,16"]
_COLOURS = 128
_WIDTH = 1100


def main() -> None:
    """Writes the pictures."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        gemm, broken = Path(folder) / "gemm.html", Path(folder) / "broken.html"
        CliRunner().invoke(app, ["explain", *GEMM, *LAUNCH, "--html", str(gemm)])
        kernel = Path(folder) / "broken.py"
        text = (FOLDER / "gemm_4_producer.py").read_text()
        kernel.write_text(text.replace("ring.consumed(1, pred=k > 0)", "ring.consumed()"))
        sizes = ["--const", f"BM={BM},BN={BN},BK={BK},D=3", "--num-warps", "8"]
        CliRunner().invoke(app, ["verify", f"{kernel}:gemm", "--sig", RING_TYPES, *sizes, "--html", str(broken)])
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for theme, end in (("light", ""), ("dark", "_dark")):
            taken(browser, gemm, theme, (_WIDTH, 820), f"explain_html{end}")
            taken(browser, gemm, theme, (_WIDTH, 800), f"explain_html_timeline{end}", at("#timeline"))
            taken(browser, broken, theme, (_WIDTH, 800), f"explain_html_witness{end}", last_step)
        taken(browser, gemm, "light", (380, 760), "explain_html_phone", at("#source"))
        browser.close()


def taken(
    browser: Any, page: Path, theme: str, size: tuple[int, int], name: str, before: Callable[[Any], None] | None = None
) -> None:
    """One picture. before: is done to the page first."""
    tab = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=theme)
    tab.goto(page.as_uri())
    if before is not None:
        before(tab)
    picture = Image.open(io.BytesIO(tab.screenshot()))
    picture.convert("RGB").quantize(_COLOURS).save(IMAGES / f"{name}.png", optimize=True)
    tab.close()


def at(selector: str) -> Callable[[Any], None]:
    """Scrolls to an element."""
    return lambda tab: tab.evaluate(f"document.querySelector({selector!r}).scrollIntoView()")


def last_step(tab: Any) -> None:
    """Goes to the last step of the run."""
    tab.locator(".run").focus()
    tab.keyboard.press("End")
    at("#verdict h3")(tab)
    tab.evaluate("scrollBy(0, -50)")


if __name__ == "__main__":
    main()
