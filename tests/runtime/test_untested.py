"""On a Triton that Tawa was not tested with: nothing of it is touched, one warning, and the true reason everywhere."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import triton
import triton.compiler.compiler
import triton.language as tl
import triton.runtime._async_compile
import triton.runtime.jit
from triton import knobs
from typer.testing import CliRunner

import tawa
import tawa.errors
from tawa.bridge.driver import attach
from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.triton import versions
from tawa.bridge.triton.signature import Signature
from tawa.cli.main import app
from tawa.plan import PlanOptions
from tests.bridge import kernels

TILE = "tensordesc<fp16[64,64]>"
TEXT = f"a_desc={TILE}, b_desc={TILE}, c_desc={TILE}, K=i32:16"
BLOCKS = {"BM": 64, "BN": 64, "BK": 64}
REASON = "is outside the tested range 3.6 to 3.9"
CURE = "pip install 'triton>=3.6,<3.10'"
COMMAND = [f"{kernels.__file__}:gemm_descriptors", "--sig", TEXT, "--const", "BM=64,BN=64,BK=64"]

ARGUMENTS = [f"--arg={name}_desc=randn:64x64:f16:box=64x64" for name in "abc"] + ["--arg=K=64"]


@pytest.fixture(params=[(3, 5, 1), (3, 4, 0), (3, 12, 0)], ids=str)
def untested(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Another Triton: its number, and what Tawa would attach to is called otherwise."""
    version = request.param
    monkeypatch.setattr(versions, "triton_version", lambda: version)
    versions.warn_untested.cache_clear()
    slots: list[tuple[Any, str]] = [
        (triton.runtime._async_compile, "AsyncCompileMode"),
        (triton.runtime.autotuner, "get_cache_invalidating_env_vars"),
        (triton.compiler.compiler.CompiledKernel, "_init_handles"),
    ]
    for owner, name in slots:
        monkeypatch.delattr(owner, name)
    monkeypatch.setattr(type(knobs.runtime), "add_stages_inspection_hook", _Refusing())
    yield ".".join(map(str, version))
    tawa.uninstall()
    versions.warn_untested.cache_clear()


class _Refusing:
    """A slot that the stages of the installed Triton find empty, and that nobody may fill."""

    def __get__(self, owner: Any, kind: type) -> Any:
        return None

    def __set__(self, owner: Any, value: Any) -> None:
        raise AttributeError("'runtime_knobs' object has no attribute 'add_stages_inspection_hook'")


def warnings_of(work: Any) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = work()
    return result, [str(it.message) for it in seen if "tested range" in str(it.message)]


def tensors() -> list[Any]:
    return [kernels.half_tensor() for _ in range(3)]


def warmup(kernel: Any, **options: Any) -> Any:
    return kernel.warmup(*tensors(), 64, grid=(1,), **BLOCKS, **options)


def command(*arguments: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CliRunner().invoke(app, list(arguments))


def test_a_kernel_under_tawa_jit_is_launched_by_triton_with_one_warning(untested: str, driver: None) -> None:
    stock = warmup(triton.jit(kernels.gemm_pointers.fn))

    def launches() -> list[Any]:
        kernel = tawa.jit(kernels.gemm_pointers)
        assert isinstance(kernel, triton.JITFunction) and kernel.fn is kernels.gemm_pointers.fn
        return [warmup(kernel), warmup(kernel, aref_depth=3), warmup(tawa.jit(kernel), num_consumer_groups=2)]

    found, said = warnings_of(launches)
    assert [it.asm["cubin"] for it in found] == [stock.asm["cubin"]] * 3
    assert len(said) == 1 and f"Triton {untested} {REASON}" in said[0] and CURE in said[0]


@pytest.mark.parametrize("way", ["install", "scope", "launch", "tuner"])
def test_the_warning_points_at_the_users_line(untested: str, driver: None, way: str) -> None:
    kernel = tawa.jit(kernels.gemm_pointers)
    tuner = triton.autotune(configs=[triton.Config({"BK": 64})], key=["K"])(kernel)

    def work() -> None:
        if way == "install":
            tawa.install()
            warmup(triton.jit(kernels.gemm_pointers.fn))
        elif way == "scope":
            with tawa.scope():
                pass
        elif way == "launch":
            warmup(kernel)
        else:
            tuner.warmup(*tensors(), 64, grid=(1,), BM=64, BN=64)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        work()
    places = [it.filename for it in seen if "tested range" in str(it.message)]
    assert places == [__file__]


@pytest.mark.filterwarnings("ignore:tawa:RuntimeWarning")
def test_the_autotuner_takes_tawas_configurations(untested: str, driver: None) -> None:
    configs = [tawa.Config({"BK": 64}, num_warps=4, aref_depth=3), tawa.Config({"BK": 32}, num_warps=4, mma_depth=1)]
    below = triton.autotune(configs=configs, key=["K"])(tawa.jit(kernels.gemm_pointers))
    above = tawa.jit(triton.autotune(configs=configs, key=["K"])(kernels.gemm_pointers))
    for tuner in (below, above):
        assert len(tuner.warmup(*tensors(), 64, BM=64, BN=64, grid=(1,))) == 2


@triton.jit
def _halved(x):
    return x * 0.5


_helper = _halved


@triton.jit
def _calls(x_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(x_ptr + at, _helper(tl.load(x_ptr + at)))


@pytest.mark.filterwarnings("ignore:tawa:RuntimeWarning")
def test_other_kernels_may_call_a_function_under_tawa_jit(
    untested: str, driver: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "_helper", tawa.jit(_halved))
    assert "mul" in triton.jit(_calls.fn).warmup(kernels.half_tensor(), N=128, grid=(1,)).asm["ptx"]


@pytest.mark.filterwarnings("ignore:tawa:RuntimeWarning")
def test_a_demand_is_an_error_with_the_version_and_the_cure(
    untested: str, driver: None, gemm_signature: Signature
) -> None:
    kernel = tawa.jit(kernels.gemm_pointers)
    pinned: dict[str, Any] = {"enable_warp_specialization": True}

    def within_scope() -> None:
        with tawa.scope(**pinned):
            pass

    demands = [
        lambda: warmup(kernel, **pinned),
        lambda: warmup(tawa.jit(kernels.gemm_pointers, **pinned)),
        lambda: tawa.install(**pinned),
        within_scope,
        lambda: compile_kernel(kernels.gemm_descriptors, gemm_signature, Request(PlanOptions(**pinned))),
        lambda: tawa.explain(kernels.gemm_descriptors, TEXT, BLOCKS, **pinned),
    ]
    for demand in demands:
        with pytest.raises(tawa.UnsupportedKernel, match=f"Triton {untested} {REASON}(.|\n)*cure: pip install"):
            demand()
    assert attach.ATTACHMENT.count == 0


@pytest.mark.filterwarnings("ignore:tawa:RuntimeWarning")
def test_every_way_to_ask_gives_the_version(untested: str, driver: None, gemm_signature: Signature) -> None:
    kernel = tawa.jit(kernels.gemm_pointers)
    launched = warmup(kernel)
    plain = triton.jit(kernels.gemm_pointers.fn)
    tawa.install(aref_depth=3)
    with tawa.scope(mma_depth=1):
        warmup(plain)
    found = [
        tawa.explain(kernel),
        tawa.explain(launched),
        tawa.explain(plain),
        tawa.explain(kernels.gemm_descriptors, TEXT, BLOCKS),
        tawa.explain(kernels.gemm_descriptors, gemm_signature, enable_warp_specialization=False),
    ]
    for it in found:
        assert it.reason.startswith(f"Triton {untested} {REASON}") and it.cure == CURE
        assert not it.applied and it.mode == "stock" and it.registers > 0
    report = tawa.report()
    assert report.kernels == () and REASON in report.reason and REASON in str(report)
    assert json.loads(report.to_json())["reason"] == report.reason


@pytest.mark.filterwarnings("ignore:tawa:RuntimeWarning")
def test_installing_touches_nothing_of_triton(untested: str) -> None:
    def slots() -> list[Any]:
        return [
            triton.compiler.compiler.get_cache_key,
            triton.runtime.jit.get_cache_key,
            triton.runtime.jit.compute_cache_key,
            triton.runtime.jit.JITFunction._do_compile,
            triton.runtime.jit.JITFunction.warmup,
            triton.compiler.compiler.CompiledKernel.__init__,
        ]

    before = slots()
    tawa.install()
    with tawa.scope():
        assert all(now is then for now, then in zip(slots(), before, strict=True))
    tawa.uninstall()


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("explain", *COMMAND), 0),
        (("compile", *COMMAND), 0),
        (("compile", *COMMAND, "--emit", "aref"), 0),
        (("explain", *COMMAND, "--option", "enable_warp_specialization=True"), 1),
        (("verify", *COMMAND), 2),
        (("simulate", *COMMAND, "--grid", "1,1", *ARGUMENTS), 2),
        (("demo",), 1),
        (("doctor",), 1),
    ],
    ids=lambda it: " ".join([it[0], *it[6:8]]) if isinstance(it, tuple) else str(it),
)
def test_every_command_says_the_version(untested: str, arguments: tuple[str, ...], status: int) -> None:
    done = command(*arguments)
    said = " ".join((done.stdout + done.stderr).replace("│", " ").split())
    assert done.exit_code == status, said
    assert f"Triton {untested} {REASON}" in said
    assert not isinstance(done.exception, (AttributeError, ImportError))


def test_a_script_runs_as_under_python_and_its_report_says_why_it_is_empty(
    untested: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, record = tmp_path / "script.py", tmp_path / "report.jsonl"
    script.write_text("print('the script ran')\n")
    done = command("run", "--report", str(script))
    assert done.exit_code == 0 and "the script ran" in done.stdout
    assert f"Triton {untested} {REASON}" in " ".join(done.stderr.split())
    from tawa.runtime.history.report_file import read_reports, write_report

    write_report(tawa.report(), str(record))
    assert f"Triton {untested} {REASON}" in read_reports(record).reason


@pytest.mark.filterwarnings("ignore:tawa:RuntimeWarning")
def test_a_compile_ahead_of_time_that_such_a_triton_wants_otherwise_says_the_version(
    untested: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(*_: Any, **__: Any) -> None:
        raise TypeError("Constants keys must be string")

    monkeypatch.setattr(triton.compiler, "ASTSource", other)
    with pytest.raises(tawa.errors.CompileError, match=f"Constants keys(.|\n)*Triton {untested} {REASON}"):
        tawa.explain(kernels.gemm_descriptors, TEXT, BLOCKS)


def test_a_program_that_such_a_triton_cannot_read_says_the_version(untested: str, tmp_path: Path) -> None:
    program = tmp_path / "program.ttgir"
    program.write_text("module { what(this) is }\n")
    done = command("verify", str(program))
    assert f"Triton {untested} {REASON}" in " ".join(done.stderr.split()) and done.exit_code == 2


def test_a_reproducer_is_not_replayed(untested: str) -> None:
    from tawa.bridge.driver.compile import compile_ttir

    with pytest.raises(tawa.TawaError, match=REASON):
        compile_ttir("", Request(), num_warps=4, num_stages=3)
