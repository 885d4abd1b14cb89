from __future__ import annotations

import pytest

from tests.cli.conftest import GEMM, KERNELS

pytestmark = pytest.mark.usefixtures("without_ptx")


@pytest.fixture
def reproducer(tawa, tmp_path, monkeypatch):
    """A folder left by an internal failure, which is still there when the folder is replayed."""
    from tawa.bridge.driver import driver

    folders = tmp_path / "reproducers"
    kernels = tmp_path / f"kernels_{tmp_path.name}.py"  # a kernel of its own: a kernel reads the settings once
    kernels.write_text(KERNELS.read_text())
    monkeypatch.setenv("TAWA_REPRODUCER_DIR", str(folders))
    with monkeypatch.context() as broken:
        broken.setattr(driver, "outcome_of", _break)
        result = tawa("explain", f"{kernels}:gemm", *GEMM[1:], "--option", "enable_warp_specialization=true")
    assert result.exit_code == 1
    (folder,) = folders.iterdir()
    assert f"tawa replay {folder}" in result.stderr
    return folder


def _break(*_):
    raise ZeroDivisionError("broken on purpose")


def test_replay_shows_the_failure_again(tawa, reproducer, monkeypatch):
    from tawa.bridge.driver import driver

    monkeypatch.setattr(driver, "outcome_of", _break)
    result = tawa("replay", str(reproducer))
    assert result.exit_code == 1
    assert "reproduced:" in result.stderr
    assert "broken on purpose" in result.stderr


def test_replay_of_a_mended_failure_says_so(tawa, reproducer):
    result = tawa("replay", str(reproducer))
    assert result.exit_code == 0, result.stderr
    assert "not reproduced: the kernel is specialised now" in result.stdout


def test_a_folder_at_whose_text_triton_ends_the_process_is_an_error(tawa, reproducer):
    text = reproducer / "ttir.mlir"
    text.write_text("#layout = #ttg.slice<{i1 = 1}>\n" + text.read_text())
    result = tawa("replay", str(reproducer))
    assert result.exit_code == 1
    assert "error: Triton cannot compile ttir.mlir: it ends the process (SIGSEGV)" in result.stderr


def test_a_text_that_triton_cannot_read_is_shown_at_its_line(tawa, reproducer):
    text = reproducer / "ttir.mlir"
    text.write_text(text.read_text().replace("tt.func", "tt.funk", 1))
    result = tawa("replay", str(reproducer))
    assert result.exit_code == 1
    assert "error: Triton cannot compile ttir.mlir: custom op 'tt.funk' is unknown" in result.stderr
    assert f"--> {text}:" in result.stderr


def test_a_folder_that_is_no_reproducer_is_status_2(tawa, tmp_path):
    result = tawa("replay", str(tmp_path))
    assert result.exit_code == 2
    assert "no request.json is in it" in result.stderr
