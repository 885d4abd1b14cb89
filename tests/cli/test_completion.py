"""Completion in the shell: commands, options, and the kernels of files, which are not imported."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tawa.cli.completion import complete_arch, complete_kernel, complete_option, kernels_in
from tawa.plan import PlanOptions

FILE = """
import triton, tawa
from triton.experimental import gluon
from tawa import jit
raise SystemExit("a file that is completed is not run")

@triton.jit
def gemm(a): ...

@tawa.jit(aref_depth=3)
def gemm_nt(a): ...

@triton.autotune(configs=[], key=[])
@jit
def tuned(a): ...

@gluon.jit
def explicit(a): ...

def plain(a): ...

@tawa.scope()
def other(a): ...
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels.py").write_text(FILE)
    (tmp_path / "broken.py").write_text("def (")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "more.py").write_text("@triton.jit\ndef more(): ...\n")
    return tmp_path


def test_the_kernels_of_a_file_are_those_under_jit_and_the_file_is_not_run(folder: Path) -> None:
    assert kernels_in(folder / "kernels.py") == ["gemm", "gemm_nt", "tuned", "explicit"]
    assert kernels_in(folder / "broken.py") == kernels_in(folder / "none.py") == []


@pytest.mark.parametrize(
    "word, found",
    [
        ("kernels.py:g", ["kernels.py:gemm", "kernels.py:gemm_nt"]),
        ("kernels.py:x", []),
        ("ker", [f"kernels.py:{it}" for it in ("gemm", "gemm_nt", "tuned", "explicit")]),
        ("kept/", ["kept/more.py:more"]),
        ("ke", [*(f"kernels.py:{it}" for it in ("gemm", "gemm_nt", "tuned", "explicit")), "kept/"]),
        ("kept", []),  # the shell completes the folder
        ("no/such/", []),
    ],
)
def test_a_word_becomes_a_file_and_a_kernel(word: str, found: list[str]) -> None:
    assert complete_kernel(word) == found


def test_options_of_a_launch_and_machines_are_completed() -> None:
    assert complete_option("aref_depth=3,mma") == ["aref_depth=3,mma_depth="]
    assert len(complete_option("")) == len(PlanOptions.names())
    assert complete_arch("sm_1") == ["sm_100"]


IN_BASH = [
    (["tawa", "exp"], ["explain"]),
    (["tawa", "explain", "kern"], [f"kernels.py:{it}" for it in ("gemm", "gemm_nt", "tuned", "explicit")]),
    (["tawa", "explain", "kernels.py", ":", ""], ["gemm", "gemm_nt", "tuned", "explicit"]),
    (["tawa", "explain", "kernels.py", ":"], ["gemm", "gemm_nt", "tuned", "explicit"]),
    (["tawa", "verify", "kernels.py", ":", "ge"], ["gemm", "gemm_nt"]),
    (["tawa", "verify", "kernels.py", ":", "gemm", "--acc"], ["--accept"]),
    (["tawa", "verify", "kernels.py", ":", "gemm", "--accept", "pr"], ["proved"]),
]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_gets_what_it_replaces_although_it_divides_words_at_colons(folder: Path) -> None:
    """The words are those of bash, whose COMP_WORDBREAKS has a colon."""
    command = folder / "tawa"
    command.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path[:0] = {sys.path!r}\nfrom tawa.cli.main import main\nmain()\n"
    )
    command.chmod(0o755)
    script = f'eval "$(env _TAWA_COMPLETE=source_bash {command})"'
    for words, _ in IN_BASH:
        script += f"""
        COMP_WORDS=({" ".join(f"'{word}'" for word in words)})
        COMP_CWORD={len(words) - 1}
        COMPREPLY=()
        _tawa_completion {command}
        printf '%s\\n' "${{COMPREPLY[*]}}"
        """
    done = subprocess.run(["bash", "--norc", "-c", script], cwd=folder, capture_output=True, text=True)
    found = [line.split() for line in done.stdout.splitlines()]
    assert found == [answers for _, answers in IN_BASH], done.stderr
