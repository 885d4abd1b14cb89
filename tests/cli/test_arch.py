"""``--arch``: the GPU to compile for. No kernel of any GPU ends the process.

What the checks and the simulator know of Blackwell is tested elsewhere: here, an answer about the program is enough.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tawa.bridge.driver.compile import compile_kernel, jit_function
from tawa.bridge.triton.signature import parse_signature
from tawa.machine.machines import SM_90, SM_100, Machine
from tests.bridge import faulty_gluon
from tests.cli.conftest import FILL, GEMM, KERNELS, Tawa
from tests.cli.kernels import gemm, specialising

BLACKWELL = [f"{faulty_gluon.__file__}:tensor_memory", "--sig", "out=*fp32"]
HOPPER = [f"{faulty_gluon.__file__}:wgmma", "--sig", "out=*fp32"]
ANNOTATED = [f"{KERNELS}:specialising", *GEMM[1:]]
COMMANDS = ["verify", "simulate", "explain", "compile"]
BOXES = [("a", "randn", "128x64"), ("b", "randn", "64x128"), ("c", "nan", "128x128")]
RUN = [
    *("--grid", "1", "--order", "eager", "--const", "BM=128,BN=128", "--arg", "K=64"),
    *(part for name, made, box in BOXES for part in ("--arg", f"{name}={made}:{box}:f16:box={box}")),
]


def target_of_verdict(tawa: Tawa, *arguments: str) -> str:
    """The target of a program that was checked, whatever the verdict is."""
    result = tawa("verify", *arguments, "--json")
    assert result.exit_code in (0, 1, 2, 4), result.stderr
    found = json.loads(result.stdout)
    assert "made for" not in (found["reason"] or "")
    return found["target"]


@pytest.mark.parametrize(
    "kernel, arch, target",
    [
        (BLACKWELL, [], "sm_100"),
        (BLACKWELL, ["--arch", "sm_100"], "sm_100"),
        (BLACKWELL, ["--arch", "100"], "sm_100"),
        (HOPPER, [], "sm_90"),
        (HOPPER, ["--arch", "sm_90a"], "sm_90"),
        (FILL, [], "sm_90"),
        (FILL, ["--arch", "sm_100a"], "sm_100"),
    ],
)
def test_the_target_is_named_or_follows_from_the_operations(tawa: Tawa, kernel, arch, target) -> None:
    assert target_of_verdict(tawa, *kernel, *arch) == target


@pytest.mark.parametrize("kernel, arch, own", [(BLACKWELL, "sm_90", "sm_100"), (HOPPER, "sm_100", "sm_90")])
@pytest.mark.parametrize("command", ["verify", "explain", "simulate"])
def test_a_gpu_that_contradicts_the_operations_is_wrong_usage(tawa: Tawa, command, kernel, arch, own) -> None:
    run = ["--grid", "1", "--arg", "out=zeros:1:f32"] if command == "simulate" else []
    result = tawa(command, *kernel, *run, "--arch", arch)
    assert result.exit_code == (2 if command == "explain" else 3)
    assert f"cannot be compiled for {arch} " in result.stderr and f"is an operation of {own} " in result.stderr
    assert "--> tests/bridge/faulty_gluon.py:" in result.stderr and f"cure: --arch {own}" in result.stderr


@pytest.mark.contract
@pytest.mark.parametrize("command", ["explain", "simulate"])
def test_a_gluon_kernel_of_blackwell_is_taken(tawa: Tawa, command) -> None:
    run = ["--grid", "1", "--arg", "out=zeros:1:f32"] if command == "simulate" else []
    result = tawa(command, *BLACKWELL, *run)
    assert result.exit_code in ((0,) if command == "explain" else (0, 1, 2))
    assert "Triton cannot compile" not in result.stderr


def test_an_explanation_names_the_gpu(tawa_json) -> None:
    assert tawa_json("explain", *BLACKWELL)["target"] == "sm_100"
    assert tawa_json("explain", *FILL)["target"] == "sm_90"


@pytest.mark.contract
@pytest.mark.parametrize("kernel", [GEMM, ANNOTATED], ids=["plain", "warp_specialize"])
def test_a_kernel_of_triton_is_specialised_and_proved(tawa: Tawa, kernel) -> None:
    result = tawa("verify", *kernel, "--arch", "sm_100")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("proved: ") and "specialised wherever legal" in result.stdout
    assert target_of_verdict(tawa, *kernel, "--arch", "sm_100") == "sm_100"


@pytest.mark.contract
@pytest.mark.parametrize("level", ["barrier", "ttgir"])
def test_a_kernel_of_triton_is_run(tawa: Tawa, level) -> None:
    result = tawa("simulate", ANNOTATED[0], *RUN, "--level", level, "--arch", "sm_100")
    assert result.exit_code == 0, result.stderr
    assert "not specialised" not in result.stdout


@pytest.mark.usefixtures("without_ptx")
def test_the_cure_for_a_tile_that_dots_and_threads_read_works(tawa: Tawa) -> None:
    name = f"{KERNELS}:sums_beside"
    said = tawa("explain", name, *GEMM[1:], "--arch", "sm_100", "--legal")
    assert "both a dot and the threads read a tile" in said.stdout and "pin the path of this operand" in said.stdout
    plan = '{"version": 7, "operands": [{"argument": "a", "loop": 0, "path": "consumer"}]}'
    result = tawa("simulate", name, *RUN, "--arch", "sm_100", "--plan", plan)
    assert result.exit_code == 0 and result.stdout.splitlines()[-1].startswith("same bits"), result.stderr
    assert tawa("verify", name, *GEMM[1:], "--arch", "sm_100", "--plan", plan).stdout.startswith("proved: ")


@pytest.mark.contract
def test_levels_are_those_of_the_gpu(tawa: Tawa) -> None:
    assert ".target sm_100a" in tawa("compile", *GEMM, "--arch", "sm_100", "--emit", "ptx").stdout
    ttgir = tawa("compile", *ANNOTATED, "--arch", "sm_100", "--emit", "ttgir").stdout
    assert '"cuda:100"' in ttgir and "ttg.warp_specialize" in ttgir
    aref = tawa("compile", *GEMM, "--arch", "sm_100", "--emit", "aref").stdout
    assert '"aref.acquire"' in aref and '"ttng.tc_gen5_mma"' in aref and "by_commit" in aref
    assert ".target sm_90a" in tawa("compile", *GEMM, "--arch", "sm_90", "--emit", "ptx").stdout


@pytest.mark.parametrize("command", ["verify", "compile"])
@pytest.mark.usefixtures("without_ptx")
def test_specialisation_can_be_demanded(tawa: Tawa, command) -> None:
    result = tawa(command, *GEMM, "--arch", "sm_100", "--option", "enable_warp_specialization=True")
    assert result.exit_code == 0, result.stderr


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "name, what, cure",
    [
        ("sm_103", "--arch sm_103: Tawa knows sm_90 and sm_100", "cure: name one of sm_90 (H100, H200), sm_100 ("),
        ("sm_120", "--arch sm_120: Tawa knows sm_90 and sm_100", "cure: name one of "),
        ("sm_1000", "--arch sm_1000: no GPU of this name is known", "cure: did you mean 'sm_100'?"),
    ],
)
def test_another_name_is_wrong_usage(tawa: Tawa, command, name, what, cure) -> None:
    kernel = [GEMM[0], *RUN] if command == "simulate" else GEMM
    result = tawa(command, *kernel, "--arch", name)
    assert result.exit_code == (3 if command in ("verify", "simulate") else 2)
    assert result.stdout == "" and what in result.stderr and cure in result.stderr


@pytest.mark.parametrize("target", [SM_90, SM_100], ids=lambda it: it.name)
def test_a_file_has_a_gpu_already(tawa: Tawa, tmp_path: Path, target: Machine) -> None:
    kernel: Any = specialising if target is SM_100 else gemm
    names = jit_function(kernel).arg_names
    signature = parse_signature(GEMM[2], {"BM": 128, "BN": 128, "BK": 64}, names)
    file = tmp_path / "kernel.ttgir"
    file.write_text(compile_kernel(kernel, signature, None, target=target).asm["ttgir"])
    assert target_of_verdict(tawa, str(file)) == target.name
    result = tawa("verify", str(file), "--arch", "sm_100")
    assert result.exit_code == 3
    assert "--arch goes with FILE.py:KERNEL" in result.stderr and "cure: leave --arch out" in result.stderr
