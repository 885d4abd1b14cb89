"""The public names are complete: in `dir`, in `__all__`, and for a type checker in the project of a user."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import typing
from dataclasses import fields
from pathlib import Path

import pytest

import tawa
import tawa.errors
import tawa.ops
from tawa.plan import PlanOptions
from tawa.runtime.requests import OPTION_NAMES, LaunchOptions

SOURCE = Path(tawa.__file__).parent
USER = """\
import tawa
import tawa.ops
from tawa import PlanError, Remark
from tawa.ops import attention, matmul

tawa.install(aref_depth=3, mode="measure")
with tawa.scope(mma_depth=1, plan={"consumer_groups": 2}):
    pass

@tawa.jit(aref_depth=3)
def kernel(a): ...

kernel[(1,)](1, aref_depth=2)
found = tawa.explain(kernel, "a=*fp16", {})
depths = [ring.depth for ring in found.rings]
verdict = tawa.check_protocol(kernel, "a=*fp16")
if isinstance(verdict, tawa.Refuted):
    print(verdict.witness.message)
done = tawa.simulate(found, {}, (1,)).programs
remark = Remark("declined", "why", cure="how")
if tawa.Settings.from_environment().background == "off":
    tawa.wait(1.0)
product = tawa.ops.matmul
ring = tawa.rings.Ring

wrong = tawa.explane  # wrong
tawa.install(aref_dept=3)  # wrong
tawa.install(start="soon")  # wrong
tawa.explain(kernel, num_warps="4")  # wrong
other = tawa.ops.atention  # wrong
"""
REVEALED = {
    "found": "Explanation",
    "depths": "list[int | None]",
    "verdict": "Refuted | Proved | Checked | Unknown",
    "done": "int",
    "remark": "Remark",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment in which Tawa is installed as from a wheel, and a project of somebody who uses it."""
    folder = tmp_path_factory.mktemp("user")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (packages / "tawa").symlink_to(SOURCE)
    (packages / "others.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    return folder


def test_dir_has_every_public_name_and_each_can_be_had() -> None:
    assert dir(tawa) == sorted(set(tawa.__all__)) and len(set(tawa.__all__)) == len(tawa.__all__)
    assert set(tawa._HOMES) | {"__version__"} == set(tawa.__all__)
    assert set(tawa.ops._HOMES) == set(tawa.ops.__all__) == set(dir(tawa.ops))
    program = "from tawa import *; print(install, ops, rings, TargetError)"
    named = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert named.returncode == 0, named.stderr


def test_every_error_that_a_user_may_catch_is_public() -> None:
    kinds = {name for name, it in vars(tawa.errors).items() if inspect.isclass(it) and issubclass(it, tawa.TawaError)}
    assert kinds <= set(tawa.__all__)


def test_a_type_checker_knows_every_launch_option() -> None:
    types = typing.get_type_hints(LaunchOptions)
    assert types.keys() == OPTION_NAMES
    own, names = typing.get_type_hints(PlanOptions), [field.name for field in fields(PlanOptions)]
    assert {name: types[name] for name in names} == {name: own[name] for name in names}


def test_a_type_checker_sees_every_name_in_the_project_of_a_user(site: Path) -> None:
    """Names that are there have their types, and those that are not are errors."""
    reveals = "".join(f"reveal_type({name})\n" for name in REVEALED)
    names = "".join(f"_ = tawa.{name}\n" for name in tawa.__all__)
    program = USER + reveals + names
    (site / "user.py").write_text(program)
    interpreter = str(site / "venv" / "bin" / "python")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", interpreter, "user.py"]
    done = subprocess.run(command, cwd=site, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""})
    said = json.loads(done.stdout)["generalDiagnostics"]
    lines = program.splitlines()
    wrong = {lines[it["range"]["start"]["line"]] for it in said if it["severity"] == "error"}
    assert wrong == {line for line in lines if line.endswith("# wrong")}, [it["message"] for it in said]
    revealed = [it["message"] for it in said if it["message"].startswith("Type of")]
    assert revealed == [f'Type of "{name}" is "{kind}"' for name, kind in REVEALED.items()]


def test_an_operator_without_pytorch_says_what_to_install() -> None:
    code = "import sys; sys.modules['torch'] = None; from tawa.ops import matmul"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert said.endswith("tawa.ops needs PyTorch, which is not installed; cure: pip install 'tawa[torch]'")
