"""The lines on versions."""

from __future__ import annotations

import sys

import pytest

from tawa.cli.doctor.versions import versions
from tawa.supported import PYTORCH, TRITON
from tests.cli.doctor.conftest import by_name


def test_a_machine_without_pytorch_is_yellow_with_the_command_that_installs_it(packages) -> None:
    packages(torch=None, triton="3.10.0")
    found = by_name(versions())["PyTorch"]
    assert found.state == "yellow" and found.cure == PYTORCH.cure


@pytest.mark.parametrize("triton", ["3.6.0", "3.7.1", "3.8.0", "3.9.0"])
def test_the_cure_without_pytorch_keeps_the_installed_triton_and_leaves_the_choice_to_pip(packages, triton) -> None:
    for before in (None, "2.9.1"):
        packages(torch=before, triton=triton)
        found = by_name(versions())["PyTorch"]
        assert found.cure == f"pip install 'torch>=2.10' 'triton=={triton[:3]}.*'"
        assert "leave the Triton out of the command" in found.hint


def test_a_pytorch_that_is_too_old_is_red(packages) -> None:
    packages(torch="2.9.1", triton="3.10.0")
    found = by_name(versions())["PyTorch"]
    assert (found.state, found.cure) == ("red", PYTORCH.cure) and "2.10 or newer" in found.found


def test_a_pytorch_that_requires_another_triton_names_it(packages) -> None:
    packages(torch="2.13.0", triton="3.6.0", torch_requires='triton==3.7.0; platform_system == "Linux"')
    found = by_name(versions())["PyTorch"]
    assert (found.state, found.cure) == ("yellow", "pip install 'triton==3.7.0'")
    packages(torch="2.14.1", triton="3.8.2", torch_requires="triton~=3.8.0")
    assert by_name(versions())["PyTorch"].state == "green"


@pytest.mark.parametrize("version", ["3.5.1", "3.10.0"])
def test_an_unsupported_triton_is_red_with_the_range_and_the_cure(packages, version: str) -> None:
    packages(triton=version, torch=None)
    found = by_name(versions())["Triton"]
    assert (found.state, found.cure) == ("red", TRITON.cure)
    assert f"Triton {version} is outside the tested range {TRITON}" in found.found


def test_the_cure_of_a_wrong_triton_is_the_one_that_pytorch_requires(packages) -> None:
    packages(triton="3.5.1", torch="2.12.0", torch_requires="triton==3.7.0")
    assert by_name(versions())["Triton"].cure == "pip install 'triton==3.7.0'"


def test_a_triton_that_is_not_there_is_red(packages) -> None:
    packages(triton=None, torch=None)
    found = by_name(versions())["Triton"]
    assert (found.state, found.cure) == ("red", TRITON.cure) and "not installed" in found.found


def test_a_triton_that_cannot_be_imported_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton.language", None)
    found = by_name(versions())["Triton"]
    assert found.state == "red" and "cannot be imported" in found.found and "--force-reinstall" in found.cure


def test_a_package_that_is_missing_is_named(packages) -> None:
    packages(numpy=None)
    found = by_name(versions())["packages"]
    assert (found.state, found.cure) == ("red", "pip install numpy")
