"""What a package index would show and ship: sdist, wheel, version, requirements, README."""

from __future__ import annotations

import ast
import email
import email.message
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import tawa
from tawa.supported import parse_version

ROOT = Path(__file__).resolve().parents[2]
KERNELS = {
    "tawa/demo/kernels/gemm.py": 7,
    "tawa/ops/kernels/attention/backward.py": 21,
    "tawa/ops/kernels/attention/backward_varlen.py": 5,
    "tawa/ops/kernels/attention/decode.py": 4,
    "tawa/ops/kernels/attention/forward.py": 3,
    "tawa/ops/kernels/attention/parts.py": 14,
    "tawa/ops/kernels/attention/persistent.py": 1,
    "tawa/ops/kernels/attention/reordered.py": 2,
    "tawa/ops/kernels/attention/two_parts.py": 1,
    "tawa/ops/kernels/attention/varlen.py": 7,
    "tawa/ops/kernels/products/batched.py": 1,
    "tawa/ops/kernels/products/epilogue.py": 6,
    "tawa/ops/kernels/products/matmul.py": 6,
    "tawa/ops/kernels/products/scaled.py": 5,
    "tawa/ops/kernels/products/split.py": 4,
    "tawa/ops/kernels/convolution/product.py": 2,
    "tawa/ops/kernels/convolution/windows.py": 1,
    "tawa/ops/kernels/grouped/experts.py": 10,
    "tawa/ops/kernels/grouped/products.py": 9,
    "tawa/ops/kernels/products/weight_only.py": 6,
    "tawa/ops/kernels/products/weight_only_foreign.py": 3,
}
"""Functions under `@triton.jit` by module."""
EXAMPLES = ("gemm.py", "attention.py", "autotune.py", "resnet_block.py", "moe.py")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an sdist of this tree, and the wheel: `build` makes it from the unpacked sdist alone."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def metadata(dist: Path) -> email.message.Message:
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [it for it in archive.namelist() if it.endswith(".dist-info/METADATA")]
        return email.message_from_string(archive.read(name).decode())


def test_the_sdist_builds_a_wheel_with_all_modules_and_their_types(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    modules = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src/tawa").rglob("*.py")}
    assert modules <= names and "tawa/py.typed" in names
    assets = {it.relative_to(ROOT / "src").as_posix() for it in (ROOT / "src/tawa/runtime/page/assets").rglob("*.*")}
    assert len(assets) >= 5 and assets <= names
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        shipped = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "tests/conftest.py", "Makefile"} <= shipped
    assert {f"src/{it}" for it in assets} <= shipped


def test_the_wheel_has_the_kernels_of_the_operators_and_of_the_demo_and_no_other(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        modules = [name for name in archive.namelist() if name.endswith(".py")]
        found = {name: kernels_in(archive.read(name).decode()) for name in modules}
    assert {name: kernels for name, kernels in found.items() if kernels} == KERNELS


def kernels_in(source: str) -> int:
    """How many functions of a module are under `@triton.jit`."""
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    return sum("triton.jit" in map(ast.unparse, function.decorator_list) for function in functions)


def test_links_and_pictures_of_the_readme_are_addresses_on_a_package_index(dist: Path) -> None:
    text = str(metadata(dist).get_payload())
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    links = re.findall(r"\]\(([^)]+)\)", prose)
    assert len(links) > 10 and all(link.startswith("https://") for link in links)
    own = (ROOT / "README.md").read_text()
    blocks = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
    assert blocks.findall(text) == blocks.findall(own)


def test_the_changelog_begins_with_this_version_and_its_date() -> None:
    heads = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    released = [head for head in heads if head != "Unreleased"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d{2}-\d{2}", head) for head in released)
    assert released[0].startswith(f"{tawa.__version__} - ")
    numbers = [parse_version(head) for head in released]
    assert numbers == sorted(numbers, reverse=True) and len(set(numbers)) == len(numbers)


def test_the_command_says_its_version() -> None:
    done = subprocess.run([sys.executable, "-m", "tawa", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"tawa {tawa.__version__}\n")


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_says_in_one_line_what_works_without_pytorch_or_a_gpu(name: str, tmp_path: Path) -> None:
    """PyTorch is hidden, whether it is installed or not."""
    (tmp_path / "torch.py").write_text("raise ImportError('hidden by a test')\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    script = str(ROOT / "examples" / name)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "PyTorch is not installed. Without them: " in done.stderr


def test_types_are_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "Typing :: Typed" in project["classifiers"] and (ROOT / "src/tawa/py.typed").is_file()
