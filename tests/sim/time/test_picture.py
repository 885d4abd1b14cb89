"""Pictures of timelines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")


from tawa.sim import CostModel, Timeline, render
from tawa.sim.machine.cta import Order
from tests.cases.case import Specimen
from tests.cases.gemm.cases import find
from tests.sim.problems import level_module, make_arrays, run

PERSISTENT = find("persistent_8warps").with_sizes(M=256, N=512, K=512, PROGRAMS=1)


def timed(
    case: Specimen, module: Any, order: Order = "eager", seed: int = 0, model: CostModel | None = None
) -> Timeline:
    result = run(case, module, make_arrays(case), order, seed, programs=[(0, 0, 0)], timing=True)
    return result.timeline() if model is None else result.timeline(model=model)


def persistent(depth: int, mma_depth: int) -> Timeline:
    return timed(PERSISTENT, level_module("persistent_8warps", "barrier", depth, mma_depth))


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_a_picture_is_the_same_file_each_time(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    timeline = persistent(3, 1)
    files = [tmp_path / f"{number}.{suffix}" for number in range(2)]
    for file in files:
        render([("one", timeline), ("two", timeline)], file)
    first, second = (file.read_bytes() for file in files)
    assert first == second
    assert first.startswith(b"<?xml" if suffix == "svg" else b"\x89PNG")


def test_a_picture_without_matplotlib_names_the_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        render([("one", persistent(2, 1))], tmp_path / "a.svg")
