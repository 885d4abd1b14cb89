"""``tawa verify --cached``: kernels found in Triton's cache, whoever compiled them, and the verdicts on them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from typer.testing import Result

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.gluon.compile import compile_gluon
from tawa.bridge.triton.artifacts.stored_kernels import cache_folder
from tawa.bridge.triton.signature import Signature, parse_signature
from tawa.bridge.triton.versions import triton_version
from tawa.plan import PlanOptions
from tawa.runtime import stored
from tawa.verify.verdict import Checked, Proved, Refuted, Unknown, Witness
from tests.bridge.conftest import gemm_signature
from tests.bridge.kernels import gemm_descriptors
from tests.rings import kernels
from tests.support.damage import damaged_data, damaged_text, seeds
from tests.support.sample import examples
from tests.support.verdicts import passes

pytestmark = pytest.mark.usefixtures("without_ptx")

__all__ = ["gemm_signature"]

Tawa = Callable[..., Result]
VERSION = ".".join(map(str, triton_version()))
RACE = "released before it is read"


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    assert cache_folder() == tmp_path / "cache"
    return tmp_path / "cache"


def squares(fault: str = "none", depth: int = 2) -> Any:
    constants = {"D": depth, "FAULT": fault, "num_warps": 4}
    signature = parse_signature("x=*fp32, o=*fp32, count=i32", constants, kernels.squares.arg_names)
    return compile_gluon(kernels.squares, signature, num_warps=4)


def file_of(compiled: Any, suffix: str) -> Path:
    return Path(compiled.metadata_group[f"{compiled.metadata.name}.{suffix}"])


def edit_metadata(compiled: Any, **values: Any) -> None:
    path = file_of(compiled, "json")
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_one_version_passes_and_is_described(tawa: Tawa) -> None:
    compiled = squares()
    result = tawa("verify", "--cached", "squares", "--accept", "checked")
    verdict, about = result.stdout.splitlines()[0], result.stdout.splitlines()[-1]
    assert result.exit_code == 0 and passes(verdict)
    assert about.startswith(f"squares {compiled.metadata.hash[:12]}, written in Gluon, compiled by Triton {VERSION}, ")


def test_a_refuted_version_shows_the_run_that_goes_wrong(tawa: Tawa, tmp_path: Path) -> None:
    squares(RACE)
    trace = tmp_path / "run.json"
    result = tawa("verify", "--cached", "squares", "--trace", str(trace))
    assert result.exit_code == 1 and result.stdout.startswith("refuted: ")
    assert "numbers after a colon are lines of" in result.stdout or "ring.py" in result.stdout
    assert json.loads(trace.read_text())


@pytest.mark.parametrize("which", ["hash", "folder"])
def test_a_hash_may_be_cut_off(which: str, tawa: Tawa) -> None:
    compiled = squares(RACE)
    squares()
    text = compiled.metadata.hash if which == "hash" else file_of(compiled, "json").parent.name
    result = tawa("verify", "--cached", text[:10])
    assert result.exit_code == 1 and result.stdout.startswith("refuted: ")


def test_several_versions_are_a_table_newest_first_with_the_worst_status(tawa: Tawa) -> None:
    import os

    old, bad, foreign = squares(depth=3), squares(RACE), squares(depth=4)
    edit_metadata(foreign, target={"backend": "cuda", "arch": 120, "warp_size": 32})
    for age, compiled in enumerate((foreign, bad, old)):
        os.utime(file_of(compiled, "json"), (1e9 - age, 1e9 - age))
    result = tawa("verify", "--cached", "squares")
    rows = [line.split()[:4] for line in result.stdout.splitlines()[2:] if line[:1].isalpha()]
    hashes = [compiled.metadata.hash[:12] for compiled in (foreign, bad, old)]
    assert rows[:3] == [
        ["unknown", hashes[0], "Gluon", VERSION],
        ["refuted", hashes[1], "Gluon", VERSION],
        [rows[2][0], hashes[2], "Gluon", VERSION],
    ]
    assert passes(rows[2][0])
    assert f"tawa verify --cached {hashes[1]} shows the run" in result.stdout and result.exit_code == 1


VERDICTS = {
    "proved": Proved(),
    "checked": Checked("n in 0, 1", "other n"),
    "unknown": Unknown("a clock"),
    "refuted": Refuted(Witness("deadlock", "nobody moves", {}, ())),
}


@pytest.mark.parametrize(
    ("found", "status", "accepted"),
    [(("proved", "proved"), 0, 0), (("proved", "checked"), 4, 0), (("checked", "unknown"), 2, 2),
     (("unknown", "refuted"), 1, 1), (("checked", "refuted"), 1, 1)],
)  # fmt: skip
def test_the_status_is_that_of_the_worst_version(
    found: tuple[str, str], status: int, accepted: int, tawa: Tawa, monkeypatch: pytest.MonkeyPatch
) -> None:
    for depth in (2, 3):
        squares(depth=depth)
    for accept, wanted in (("proved", status), ("checked", accepted)):
        verdicts = iter(found)
        monkeypatch.setattr(stored, "check_stored", lambda *_, verdicts=verdicts, **__: VERDICTS[next(verdicts)])
        result = tawa("verify", "--cached", "squares", "--accept", accept)
        assert result.exit_code == wanted and all(word in result.stdout for word in found)


@pytest.mark.parametrize("columns", [80, 140])
def test_the_reasons_are_readable_in_a_narrow_terminal_too(columns: int, tawa: Tawa, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    squares()
    hashed = squares(RACE).metadata.hash[:12]
    lines = tawa("verify", "--cached", "squares").stdout.splitlines()
    assert max(map(len, lines)) <= columns
    assert any(line.startswith(f"{hashed}: write before release: ") for line in lines) == (columns == 80)
    assert lines[0].rstrip().endswith("compiled" if columns == 80 else "why")


def test_a_trace_of_several_versions_is_refused(tawa: Tawa) -> None:
    squares()
    squares(RACE)
    result = tawa("verify", "--cached", "squares", "--trace", "run.json")
    assert result.exit_code == 3 and "2 kernels match 'squares'" in result.stderr


def test_kernels_of_triton_and_of_tawa_are_read(tawa: Tawa, gemm_signature: Signature) -> None:
    compile_kernel(gemm_descriptors, gemm_signature, None)
    wherever_legal = Request(PlanOptions(only_if_faster=False))
    specialised = compile_kernel(gemm_descriptors, gemm_signature, wherever_legal)
    assert specialised.metadata.tawa["applied"]
    result = tawa("verify", "--cached", "gemm_descriptors", "--json", "--accept", "checked")
    found = json.loads(result.stdout)["kernels"]
    assert {it["made_by"] for it in found} == {"Tawa", "Triton"} and all(map(passes, found))
    assert result.exit_code == 0 and {it["triton"] for it in found} == {VERSION}


def test_another_gpu_is_unknown(tawa: Tawa) -> None:
    edit_metadata(squares(), target={"backend": "cuda", "arch": 120, "warp_size": 32})
    result = tawa("verify", "--cached", "squares")
    assert result.exit_code == 2
    assert result.stdout.startswith(
        "unknown: made for cuda:120; the checks know sm_90 (H100, H200) and sm_100 (B200, GB200)"
    )


def test_text_of_another_version_is_unknown_and_the_version_is_named(tawa: Tawa) -> None:
    compiled = squares()
    path = file_of(compiled, "ttgir")
    path.write_text(path.read_text().replace("ttng.wait_barrier", "ttng.await_barrier"))
    edit_metadata(compiled, triton_version="4.1.0")
    result = tawa("verify", "--cached", "squares")
    assert result.exit_code == 2
    assert result.stdout.startswith(
        f"unknown: compiled by Triton 4.1.0, and Triton {VERSION} cannot read squares.ttgir: "
    )
    assert "(line " in result.stdout.splitlines()[0] and "-->" not in result.stdout
    assert "cure: run tawa verify with Triton 4.1.0" in result.stdout


@pytest.mark.parametrize(
    "suffix, text, reason",
    [
        ("json", '{"target":', "its metadata, squares.json, cannot be read: it is not JSON"),
        ("ttgir", None, "its TTGIR is not in the cache: TRITON_STORE_BINARY_ONLY=1"),
        ("ttgir", "module {\n", f"Triton {VERSION} cannot read squares.ttgir"),
        ("ttgir", "", "squares.ttgir holds no program"),
    ],
)
def test_a_damaged_version_is_unknown(suffix: str, text: str | None, reason: str, tawa: Tawa) -> None:
    path = file_of(squares(), suffix)
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    result = tawa("verify", "--cached", "squares")
    assert result.exit_code == 2 and result.stdout.startswith("unknown: ") and reason in result.stdout, result.stdout


def test_a_program_that_was_changed_after_the_compile_is_unknown(tawa: Tawa, gemm_signature: Signature) -> None:
    wherever_legal = Request(PlanOptions(only_if_faster=False))
    path = file_of(compile_kernel(gemm_descriptors, gemm_signature, wherever_legal), "ttgir")
    path.write_text(path.read_text() + "\n")
    result = tawa("verify", "--cached", "gemm_descriptors")
    assert result.exit_code == 2 and "is not what was written" in result.stdout


@pytest.mark.parametrize(
    ("name", "value"),
    [("target", None), ("target", ["cuda", 90]), ("hash", 3), ("num_warps", "4"), ("shared", {}), ("name", []),
     ("triton_version", 3.6), ("tawa", [1]), ("tawa", {"checksums": None}), ("tawa", {"checksums": {"ttgir": None}})],
)  # fmt: skip
def test_metadata_of_a_wrong_type_is_damage(name: str, value: object, tawa: Tawa) -> None:
    edit_metadata(squares(), **{name: value})
    result = tawa("verify", "--cached", "squares")
    assert result.exit_code == 2 and result.stdout.startswith("unknown: ")
    assert f"{name} is " in result.stdout or "the entry of the cache is damaged: checksums" in result.stdout
    assert tawa("verify", "--cached", "squares", "--json").exit_code == 2


@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
@given(seeds)
def test_damaged_metadata_is_no_failure(tawa: Tawa, seed: int) -> None:
    path = file_of(squares(), "json")
    whole = path.read_text()
    damaged = damaged_text(whole, seed) if seed % 2 else json.dumps(damaged_data(json.loads(whole), seed)).encode()
    path.write_bytes(damaged)
    try:
        result = tawa("verify", "--cached", "squares")
        assert result.exit_code in (0, 2, 3, 4) and "internal error" not in result.stderr, result.stderr
    finally:
        path.write_text(whole)


def test_assumptions_are_taken(tawa: Tawa, monkeypatch: pytest.MonkeyPatch) -> None:
    squares()
    monkeypatch.setattr(stored, "check_levels", lambda *_, assume, max_trips: Proved((*assume, str(max_trips))))
    result = tawa("verify", "--cached", "squares", "--assume", "count >= 2", "--trips", "3")
    assert result.exit_code == 0
    assert {"  assuming count >= 2", "  assuming 3"} <= {*result.stdout.splitlines()}


def test_wrong_usage(tawa: Tawa, own_cache: Path) -> None:
    for arguments, said in {
        ("--cached", "squares"): f"no kernels in Triton's cache, {own_cache}",
        ("a.ttgir", "--cached", "squares"): "a.ttgir and --cached squares are two programs",
        ("--cached", "squares", "--sig", "x=i32"): "--sig goes with FILE.py:KERNEL",
        (): "no program is named",
    }.items():
        result = tawa("verify", *arguments)
        assert result.exit_code == 3 and said in result.stderr, result.stderr
    squares()
    result = tawa("verify", "--cached", "square")
    assert result.exit_code == 3 and "did you mean 'squares'?" in result.stderr
