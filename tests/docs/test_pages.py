"""What README and docs show is true: their blocks are run, compiled, or looked up, as their tags say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tawa.bridge.triton.versions import triton_version
from tests.docs.changed import concerns_pages
from tests.docs.checking import faults
from tests.docs.pages import PAGES, BadTag, Block, blocks_of
from tests.docs.running import LIMIT_S, Workplace, run_page
from tests.support.sample import EVERY_CASE


def tagged(page: Path) -> list[Block]:
    """None of a page whose tags are wrong: a test of its own says so."""
    try:
        return blocks_of(page)
    except BadTag:
        return []


BLOCKS = [block for page in PAGES for block in tagged(page)]
ON_GPU = [block for block in BLOCKS if block.tag == "gpu" and block.language == "python"]


def named(tags: tuple[str, ...]) -> list[Path]:
    return [page for page in PAGES if any(block.page == page and block.tag in tags for block in BLOCKS)]


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    """With a Triton cache of its own: a kernel from the cache has the line of the file that filled it."""
    folder = tmp_path / "place"
    folder.mkdir()
    return Workplace(folder, tmp_path / "cache")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_has_a_tag(page: Path) -> None:
    blocks_of(page)  # BadTag says which has none


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_output_stands_behind_what_prints_it(page: Path) -> None:
    blocks = blocks_of(page)
    lost = [
        it.where for n, it in enumerate(blocks) if it.tag == "output" and not it.frame and blocks[n - 1].tag != "run"
    ]
    assert not lost


@pytest.mark.skipif(triton_version()[:2] != (3, 6), reason="the pages show what Triton 3.6 makes")
@pytest.mark.skipif(not (EVERY_CASE or concerns_pages()), reason="the change does not concern what the pages print")
@pytest.mark.parametrize("page", named(("run", "output")), ids=lambda page: page.name)
def test_blocks_that_are_run_print_what_the_page_says(page: Path, place: Workplace) -> None:
    faults = [ran.fault for ran in run_page(page, place) if ran.fault]
    assert not faults, "\n\n".join(faults) + "\n\npython -m tests.docs.update writes what is printed into the pages"


@pytest.mark.parametrize("page", named(("compile", "gpu")), ids=lambda page: page.name)
def test_blocks_that_are_not_run_compile_and_name_what_exists(page: Path, place: Workplace) -> None:
    place.prepare(blocks_of(page))
    found = [fault for block in blocks_of(page) if block.tag in ("compile", "gpu") for fault in faults(block, place)]
    assert not found, "\n".join(found)


@pytest.mark.gpu
@pytest.mark.parametrize("block", ON_GPU, ids=lambda block: block.where)
def test_blocks_for_a_gpu_run_there(block: Block, place: Workplace) -> None:
    place.prepare()
    file = place.write(block)
    command = [sys.executable, str(file)]
    done = subprocess.run(
        command, cwd=place.folder, env=place.environment(), capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr
