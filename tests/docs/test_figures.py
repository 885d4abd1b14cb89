"""Every measured figure of README and docs is that of its result file, and README has no other."""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

from bench import figure_values, figures
from bench.figures import Missing, filled
from tests.docs.pages import ROOT

# Numbers that are no measurements: names, versions, and the sizes of what was measured.
NO_FIGURES = (
    r"H[12]00", r"`?sm_90a?`?", r"arXiv 2510\.14719", r"License 2\.0",
    r"`\.venv-3\.9`", r"Python 3\.11", r"Triton\s(?:you have, )?3\.6(?:\.0| to 3\.9)?", r"Triton 3\.9\.0",
    r"3\.6 to 3\.9", r"2\.10 or newer",
    r"(?:fp|bf|int|float)\d+", r"e4m3", r"[dSDKP] = \d+", r"S from 512 to 16384", r"K up to 512", r"8192 × 8192",
    r"FlashAttention-3", r"does not know to be 1",
)  # fmt: skip


def unmarked(text: str) -> list[str]:
    """The lines of a page that have a number which is neither marked nor one of `NO_FIGURES`."""
    text = figures.PART.sub("", text)
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    text = figures.MARKED.sub("", text)
    text = re.sub(r"<!--.*?-->|!\[[^\]]*\]\([^)]*\)|\]\([^)]*\)|`bench/results/\w+\.json`", "", text, flags=re.S)
    for pattern in NO_FIGURES:
        text = re.sub(pattern, "", text)
    return [line for line in text.splitlines() if re.search(r"\d", line)]


def test_every_figure_is_that_of_its_file() -> None:
    assert not figures.faults(), "python -m bench.figures --write"


def test_readme_has_no_figure_that_no_file_has() -> None:
    assert not unmarked((ROOT / "README.md").read_text())
    assert unmarked("up to 719<!--=attention.d128.best--> and 3 TFLOP/s") == ["up to  and 3 TFLOP/s"]
    assert unmarked("`bench/results/a1.json` has 1.5") == [" has 1.5"]


def test_a_figure_that_is_not_that_of_its_file_is_found_and_written() -> None:
    name = "gemm.checked"
    right = f"of {figure_values.FIGURES[name]()}<!--={name}--> problems"
    assert filled(f"of 1 to 2.5<!--={name}--> problems") == right
    assert filled(right) == right
    assert figures.differences("a\nb 1", "a\nb 2") == ["2: b 1\n   becomes b 2"]


def test_a_table_is_written_between_its_comments() -> None:
    text = filled("before\n<!-- generated: table gemm -->\nold\n<!-- end -->\nafter\n")
    assert text.splitlines()[:4] == ["before", "<!-- generated: table gemm -->", "", figure_values.gemm_table()[0]]
    assert text.endswith("<!-- end -->\nafter\n") and "old" not in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("5<!--=unheard.of-->", "no figure unheard.of"),
        ("<!-- generated: table unheard -->\n<!-- end -->", "no table unheard"),
        ("words<!--=gemm.checked-->", "no number stands in front"),
    ],
)
def test_a_mark_that_means_nothing_is_refused(text: str, said: str) -> None:
    with pytest.raises(Missing, match=said):
        filled(text)


def test_a_figure_without_its_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure_values, "RESULTS", tmp_path)
    figure_values.rows.cache_clear()
    try:
        with pytest.raises(Missing, match=r"there is no gemm_correctness\.json"):
            filled("5<!--=gemm.checked-->")
    finally:
        figure_values.rows.cache_clear()


def rates() -> list[int]:
    """The column of rates of the table of GEMMs."""
    cells = [line.split("|")[3].strip() for line in figure_values.gemm_table()]
    return [int(cell) for cell in cells if cell.isdigit()]


def test_new_rows_are_picked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rates()
    data = json.loads((ROOT / "bench" / "results" / "gemm.json").read_text())
    for row in data["rows"]:
        row["tflops"] = row["tflops"] and row["tflops"] + 1000
    (tmp_path / "gemm.json").write_text(json.dumps(data))
    monkeypatch.setattr(figure_values, "RESULTS", tmp_path)
    figure_values.rows.cache_clear()
    try:
        assert before and rates() == [rate + 1000 for rate in before]
    finally:
        figure_values.rows.cache_clear()


def test_a_result_that_is_wrong_has_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = figure_values.Row({"status": "wrong"}, "tawa")
    monkeypatch.setattr(figure_values, "rows", lambda name: (wrong,))
    with pytest.raises(Missing, match="1 problems are not right"):
        figure_values.FIGURES["gemm.checked"]()


def modules() -> list[str]:
    """The modules that docs/measuring.md lists."""
    page = (ROOT / "docs" / "measuring.md").read_text()
    return list(dict.fromkeys(re.findall(r"^\| `python -m ([\w.]+)", page, re.M)))


@pytest.mark.parametrize("module", modules())
def test_every_bench_says_what_it_does_without_a_gpu(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [module, "--help"])
    for loaded in (module, f"{module}.__main__"):  # so that it runs as if nobody had imported it
        monkeypatch.delitem(sys.modules, loaded, raising=False)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(module, run_name="__main__")
    assert ended.value.code == 0
    assert "usage:" in capsys.readouterr().out


def test_the_picture_of_one_sm_is_made_by_its_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["timeline", "--build", str(tmp_path), "--images", str(tmp_path)])
    runpy.run_module("bench.timeline", run_name="__main__")
    cycles = [int(found) for found in re.findall(r": (\d+) cycles", capsys.readouterr().out)]
    assert (tmp_path / "timeline.png").stat().st_size > 10_000
    stock, tawa = cycles
    assert tawa < stock  # what the caption says of it
