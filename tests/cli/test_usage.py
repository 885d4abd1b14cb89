"""Wrong usage: status 2, nothing on stdout, and a message that says what to type instead."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import GEMM, KERNELS

SIG = GEMM[2]

WRONG = {
    "no kernel named": ([str(KERNELS)], "names no kernel", "FILE.py:KERNEL"),
    "no such file": (["tests/cli/kernel.py:gemm"], "no file 'tests/cli/kernel.py'", "cure:"),
    "close file": ([f"{KERNELS.parent}/kernel.py:gemm"], "no file", f"did you mean {KERNELS}?"),
    "one of the kernels": ([str(KERNELS)], "names no kernel", f"cure: one of {KERNELS}:gemm, {KERNELS}:fill"),
    "a helper": ([f"{KERNELS}:double"], "'double' in", "it returns a value\n  cure: kernels there: gemm, fill, broken"),
    "a colon for =": (
        [GEMM[0], "--sig", SIG.replace("K=", "K:"), *GEMM[3:]],
        "'K:i32:16': name=type is needed",
        "cure: K=i32:16\n",
    ),
    "a colon in a constant": ([*GEMM[:4], "BM:128,BN=128"], "'BM:128': name=value is needed", "cure: BM=128\n"),
    "a colon in an option": ([*GEMM, "--option", "aref_depth:3"], "name=value is needed", "--option aref_depth=3\n"),
    "the constant that is missing": ([*GEMM[:4], "BM=128,BX=128"], "no parameter 'BX'", "did you mean BN?"),
    "close kernel": ([f"{KERNELS}:gem"], "has no kernel 'gem'", "did you mean 'gemm'?"),
    "unknown kernel": ([f"{KERNELS}:softmax"], "has no kernel 'softmax'", "kernels there: gemm, fill, broken"),
    "no kernel at all": ([f"{KERNELS}:tawa"], "'tawa'", "put @triton.jit over it"),
    "no constant": ([*GEMM[:3]], "no value for tl.constexpr BM, BN", "cure: --const BM=…,BN=…"),
    "no signature": (
        [GEMM[0], *GEMM[3:]],
        "no type and no constant for a, b, c, K",
        "cure: --sig 'a=i32, b=i32, c=i32, K=i32'",
    ),
    "unknown parameter": ([GEMM[0], "--sig", f"{SIG}, Z=i32", *GEMM[3:]], "no parameter 'Z'", "a, b, c, K"),
    "misspelt constant": ([*GEMM[:4], "BMM=128,BN=128"], "no parameter 'BMM'", "did you mean BM?"),
    "misspelt argument": (
        [GEMM[0], "--sig", SIG.replace("a=", "aa="), *GEMM[3:]],
        "no parameter 'aa'",
        "did you mean a?",
    ),
    "bad type": ([GEMM[0], "--sig", SIG.replace("i32:16", "int:16"), *GEMM[3:]], "K=int:16", "i32"),
    "bad mark": ([GEMM[0], "--sig", SIG.replace("i32:16", "i32:8"), *GEMM[3:]], "K=i32:8", "divisible by 16"),
    "bad constant": ([*GEMM[:4], "BM=big,BN=128"], "BM=big", "a name that the module of the kernel has"),
    "unknown option": ([*GEMM, "--option", "aref_dept=3"], "unknown option 'aref_dept'", "did you mean 'aref_depth'?"),
    "option without value": ([*GEMM, "--option", "aref_depth"], "name=value is needed", "--option aref_depth=3"),
    "D below 1": ([*GEMM, "--option", "aref_depth=0"], "aref_depth=0: at least 1", "cure: aref_depth=1"),
    "P below 0": ([*GEMM, "--option", "mma_depth=-1"], "mma_depth=-1: at least 0", "cure: mma_depth=0"),
    "D below P + 1": (
        [*GEMM, "--option", "aref_depth=1,mma_depth=1"],
        "D >= P + 1",
        "cure: aref_depth=2 or mma_depth=0",
    ),
    "warps": ([*GEMM, "--num-warps", "3"], "--num-warps 3", "cure: --num-warps 4"),
    "stages": ([*GEMM, "--num-stages", "0"], "--num-stages 0", "cure: --num-stages 3"),
}


@pytest.mark.parametrize("command", ["explain", "compile"])
@pytest.mark.parametrize(("arguments", "what", "cure"), WRONG.values(), ids=WRONG)
def test_wrong_usage_is_status_2_and_says_what_to_type(tawa, command, arguments, what, cure):
    result = tawa(command, *arguments)
    assert result.exit_code == 2, result.stderr
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1] and what in result.stderr and cure in result.stderr


@pytest.mark.parametrize("arguments", [["explain"], ["explian"], [*["compile"], *GEMM, "--emit", "arf"], ["replay"]])
def test_typers_own_checks_are_status_2_too(tawa, arguments):
    assert tawa(*arguments).exit_code == 2


BAD_FILES = {
    "missing module": ("import no_such_module\n", "ModuleNotFoundError", "pip install no_such_module"),
    "syntax": ("def f(:\n    pass\n", "SyntaxError", "fix the syntax"),
    "runs at import": ('raise SystemExit("usage: …")\n', "SystemExit", 'if __name__ == "__main__":'),
    "fails at import": ("x = {}\nx['BLOCK']\n", "KeyError: 'BLOCK'", 'if __name__ == "__main__":'),
}


@pytest.mark.parametrize(("text", "what", "cure"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_file_that_cannot_be_imported_is_shown_at_its_line(tawa, tmp_path: Path, text, what, cure):
    file = tmp_path / f"bad_{abs(hash(what))}.py"
    file.write_text(text)
    result = tawa("explain", f"{file}:kernel")
    assert result.exit_code == 2
    assert what in result.stderr and cure in result.stderr
    assert f"--> {file}:{1 if what != BAD_FILES['fails at import'][1] else 2}" in result.stderr


def test_a_kernel_file_inside_a_package_may_import_relatively(tawa, tmp_path: Path):
    package = tmp_path / "my_kernels"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "tiles.py").write_text("import triton\n\n\n@triton.jit\ndef nothing(x):\n    pass\n")
    (package / "use.py").write_text("from .tiles import nothing\n")
    result = tawa("explain", f"{package / 'use.py'}:nothing", "--sig", "x=i32")
    assert result.exit_code == 0, result.stderr
    assert "nothing: declined" in result.stdout


def test_the_installed_command_gives_the_same_statuses():
    program = [sys.executable, "-c", "from tawa.cli.main import main; main()"]
    here = {**os.environ, "COLUMNS": "200"}
    wrong = subprocess.run(
        [*program, "explain", f"{KERNELS}:gem"], capture_output=True, text=True, env=here, check=False
    )
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "did you mean 'gemm'?" in wrong.stderr
    helped = subprocess.run([*program, "--help"], capture_output=True, text=True, env=here, check=False)
    assert helped.returncode == 0
    for command in ("compile", "explain", "verify", "simulate", "demo", "doctor", "replay"):
        assert command in helped.stdout


DECORATED = {
    "triton.jit over tawa.jit": ("@triton.jit\n@tawa.jit\ndef kernel(x):\n    pass\n", "@tawa.jit over @triton.jit"),
    "a class": ("@tawa.jit\nclass kernel:\n    pass\n", "put it over a function"),
    "an option of tawa.Config": ("tawa.Config({}, aref_dept=3)\n", "did you mean 'aref_depth'?"),
}


@pytest.mark.parametrize(("text", "cure"), DECORATED.values(), ids=DECORATED)
def test_a_decorator_that_is_wrong_is_shown_with_its_line_and_its_own_cure(tawa, tmp_path: Path, text, cure):
    file = tmp_path / f"bad_{abs(hash(text))}.py"
    file.write_text(f"import triton\nimport tawa\n{text}")
    result = tawa("explain", f"{file}:kernel")
    assert result.exit_code == 2
    assert cure in result.stderr and f"--> {file}:3" in result.stderr
    assert "__main__" not in result.stderr


@pytest.mark.parametrize(
    ("text", "kind", "cure"),
    [("kernel = lambda x: x", "a lambda", "from its def"), ("class kernel: pass", "a class", "under @triton.jit")],
)
def test_what_is_no_function_is_called_what_it_is(tawa, tmp_path: Path, text, kind, cure):
    file = tmp_path / f"no_{kind[2:]}.py"
    file.write_text(text)
    result = tawa("explain", f"{file}:kernel")
    assert result.exit_code == 2
    assert f"is {kind}, not a Triton kernel" in result.stderr and cure in result.stderr


COMMANDS = ("run", "tune", "report", "explain", "compile", "demo", "verify", "simulate", "doctor", "replay")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_has_an_example_and_cuts_no_word_at_80_columns(tawa, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    text = tawa(command, "--help").stdout
    assert re.search(rf"tawa {command} |TAWA_REPORT=\S+ tawa run|Example: tawa {command}", text)
    assert not re.findall(r"\w…(?= *│$)", text, re.MULTILINE)


KERNEL = """
import triton
import triton.language as tl


@triton.jit
def relu(x):
    return tl.maximum(x, 0.0)


@triton.jit
def activated(a, b, c, K, ACT: tl.constexpr, SHAPE: tl.constexpr, TYPE: tl.constexpr):
    BM: tl.constexpr = SHAPE[0]
    BK: tl.constexpr = SHAPE[1]
    at = tl.arange(0, BM)
    acc = tl.zeros((BM, BM), dtype=tl.float32)
    for k in range(0, K, BK):
        ks = k + tl.arange(0, BK)
        x = tl.load(a + at[:, None] * K + ks[None, :])
        y = tl.load(b + ks[:, None] * BM + at[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(c + at[:, None] * BM + at[None, :], ACT(acc).to(TYPE))
"""
TYPED = ("--const", "ACT=relu,SHAPE=(64,64),TYPE=tl.bfloat16")


@pytest.mark.parametrize("command", ["explain", "compile", "verify", "simulate"])
def test_types_functions_and_tuples_are_constants(tawa, tmp_path, command):
    (tmp_path / "gemm_of_types.py").write_text(KERNEL)
    target = f"{tmp_path}/gemm_of_types.py:activated"
    types = ("--sig", "a=*fp16:16, b=*fp16:16, c=*bf16:16, K=i32:16")
    if command == "simulate":
        values = ("a=randn:64x128:f16", "b=randn:128x64:f16", "c=nan:64x64:bf16", "K=128")
        types = ("--grid", "1", *(it for value in values for it in ("--arg", value)))
    accept = ("--accept", "checked") if command == "verify" else ()
    result = tawa(command, target, *types, *TYPED, *accept)
    assert result.exit_code == 0, result.stderr


def test_a_kernel_without_types_gets_a_line_to_paste_with_every_parameter(tawa, tmp_path):
    (tmp_path / "gemm_of_types.py").write_text(KERNEL)
    result = tawa("explain", f"{tmp_path}/gemm_of_types.py:activated")
    assert result.exit_code == 2
    assert "--sig 'a=i32, b=i32, c=i32, K=i32' --const ACT=…,SHAPE=…,TYPE=…" in result.stderr
    result = tawa("explain", f"{tmp_path}/gemm_of_types.py:activated", "--sig", "a=*fp16", *TYPED)
    assert f"--sig 'a=*fp16, b=i32, c=i32, K=i32' --const {TYPED[1]}" in result.stderr
