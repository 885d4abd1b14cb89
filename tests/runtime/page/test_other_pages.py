"""The pages of reports and verdicts, the commands that write pages, and the library on them."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from tawa.runtime.history.process_report import KernelHistory, ProcessReport, Verdict
from tawa.runtime.history.report_file import write_report
from tests.cli.conftest import FILL, GEMM, Tawa, tawa
from tests.rings.ladder import BK, BM, BN
from tests.runtime.page.conftest import RING_TYPES
from tests.runtime.page.reading import Page

pytestmark = pytest.mark.usefixtures("without_ptx")

__all__ = ["tawa"]
LIBRARY = files("tawa.runtime.page").joinpath("assets", "echarts")
FED = Verdict(True, "one producer feeds one consumer", None, None, 1, 4096, 400.0, 15.0)
SLOW = Verdict(False, "not expected <to> pay", "script.py:12", "only_if_faster=False", 1, 512, 400.0, 15.0)
KERNELS = (
    KernelHistory("gemm", (FED, SLOW), 71.2, ("learned: K <= 4096 gets: persistent",)),
    KernelHistory("fill", (SLOW,), 1.3),
)


def test_the_page_of_a_report_has_every_kernel_verdict_and_cure() -> None:
    text = ProcessReport(KERNELS, 88.0).to_html()
    page = Page(text)
    assert page.faults == [] and page.loads == []
    assert page.data["charts"]["kernels"]["series"][0]["values"] == [71.2, 1.3]
    assert "80.9%" in page.sections["kernels"] and "not expected <to> pay" in page.sections["kernel-0"]
    for piece in ("one producer feeds one consumer", "script.py:12", "only_if_faster=False", "learned: K <= 4096"):
        assert piece in page.sections["kernel-0"]


def test_the_data_of_a_page_cannot_end_its_script() -> None:
    name = "</script><img src=x onerror=alert(1)>"
    page = Page(ProcessReport((KernelHistory(name, (FED,), 1.0),), 2.0).to_html())
    assert page.faults == [] and page.loads == [] and page.data["charts"]["kernels"]["names"] == [name]


def test_a_report_of_nothing_is_a_page_without_a_chart() -> None:
    page = Page(ProcessReport((), reason="TAWA=off").to_html())
    assert page.faults == [] and page.data["charts"] == {} and "TAWA=off" in page.sections["kernels"]


def test_the_commands_write_pages_beside_their_text(tawa: Tawa, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    for command in (("explain", *GEMM), ("explain", *FILL), ("verify", *GEMM, "--accept", "checked")):
        result = tawa(*command, "--html", str(out))
        assert result.exit_code == 0, result.stderr
        assert result.stdout and Page(out.read_text()).faults == []
        out.unlink()
    write_report(ProcessReport(KERNELS, 88.0), str(tmp_path / "report.jsonl"))
    assert tawa("report", str(tmp_path / "report.jsonl"), "--html", str(out)).exit_code == 0
    assert "Kernels under Tawa" in out.read_text()


def test_the_arguments_of_the_launch_are_those_of_the_timeline(tawa: Tawa, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    tensors = [f"--arg={name}=randn:256x256:f16" for name in "abc"]
    result = tawa("explain", *GEMM, "--legal", *tensors, "--arg", "K=256", "--grid", "2,2", "--html", str(out))
    assert result.exit_code == 0, result.stderr
    page = Page(out.read_text())
    assert "Guessed" not in page.sections["timeline"]
    panels = page.data["charts"]["timeline"]["panels"]
    dots = [sum(span[0] == panel["rows"].index("tensor cores") for span in panel["spans"]) for panel in panels]
    assert dots == [256 // 64] * 2


def test_a_folder_that_does_not_exist_is_wrong_usage_before_the_work(tawa: Tawa, tmp_path: Path) -> None:
    result = tawa("explain", *GEMM, "--html", str(tmp_path / "missing" / "page.html"))
    assert result.exit_code == 2 and "there is no folder" in result.stderr and not result.stdout


def test_a_page_is_not_written_for_several_kernels_of_a_cache(tawa: Tawa, tmp_path: Path) -> None:
    result = tawa("verify", "--cached", "gemm", "--html", str(tmp_path / "page.html"))
    assert result.exit_code == 3 and "--cached may name several" in result.stderr


def test_the_page_of_a_refuted_program_has_its_run_and_its_source(tawa: Tawa, broken: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    sizes = ["--const", f"BM={BM},BN={BN},BK={BK},D=3", "--num-warps", "8"]
    result = tawa("verify", f"{broken}:gemm", "--sig", RING_TYPES, *sizes, "--html", str(out))
    assert result.exit_code == 1
    page = Page(out.read_text())
    assert page.faults == [] and tuple(page.sections) == ("verdict", "source")
    assert len(page.data["steps"]) > 10 and "write before release" in page.sections["source"]
    assert "ring = ring.put((a, b), ([m, k], [k, n]))" in page.sections["source"]


def test_a_program_without_source_still_has_its_verdict(tawa: Tawa, tmp_path: Path) -> None:
    text = tawa("compile", *GEMM, "--emit", "barrier").stdout
    program, out = tmp_path / "kernel.ttgir", tmp_path / "page.html"
    program.write_text(re.sub(r'"[^"\n]*kernels\.py"', '"/nowhere/kernels.py"', text))
    assert tawa("verify", str(program), "--accept", "checked", "--html", str(out)).exit_code == 0
    page = Page(out.read_text())
    assert "The files with the source are not here." in page.sections["source"]


def test_the_library_is_the_version_that_its_page_names_and_has_its_licences() -> None:
    text = LIBRARY.joinpath("README.md").read_text()
    (version,) = set(re.findall(r"ECharts\]\([^)]*\) ([\d.]+)", text))
    code = LIBRARY.joinpath("echarts.min.js").read_text()
    assert "version:()=>" in code and f'"{version}"' in code
    for name in re.findall(r"`((?:LICENSE|NOTICE)[\w-]*)`", text):
        assert len(LIBRARY.joinpath(name).read_text()) > 100, name


@pytest.mark.parametrize("path", ["assets/page.css", "assets/page.js"])
def test_our_own_assets_name_no_address(path: str) -> None:
    assert "://" not in files("tawa.runtime.page").joinpath(*path.split("/")).read_text()
