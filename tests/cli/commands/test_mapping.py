"""``tawa explain --emit mapping`` and ``--mapping``."""

from __future__ import annotations

import pytest

from tests.cli.commands.test_plan import SIMULATE
from tests.cli.conftest import FILL, GEMM


def test_a_mapping_that_was_printed_makes_the_same_kernel(tawa, tmp_path):
    file = tmp_path / "gemm.toml"
    file.write_text(tawa("explain", *GEMM, "--legal", "--emit", "mapping").stdout)
    assert "[operands.a]" in file.read_text() and "# producer, loop k: reads a, b" in file.read_text()
    again = tawa("compile", *GEMM, "--mapping", str(file), "--emit", "ptx")
    assert (again.exit_code, again.stdout) == (0, tawa("compile", *GEMM, "--emit", "ptx").stdout)


@pytest.mark.usefixtures("without_ptx")
def test_every_command_takes_a_mapping(tawa):
    text = "[operands.a]\nring = 2\n[loops.k]\nin_flight = 0\n"
    assert "D=2; P=0" in tawa("compile", *GEMM, "--mapping", text).stdout
    assert tawa("verify", *GEMM, "--mapping", text, "--accept", "checked").exit_code == 0
    assert tawa("simulate", *SIMULATE, "--mapping", text).exit_code == 0


@pytest.mark.usefixtures("without_ptx")
def test_a_bad_mapping_is_an_error_with_the_nearest_names(tawa):
    result = tawa("explain", *GEMM, "--mapping", "[operands.x]\nring = 2")
    assert result.exit_code == 2 and "which gemm (" in result.stderr and "cure: one of a, b" in result.stderr
    result = tawa("explain", *GEMM, "--mapping", "[groups]", "--plan", "{}")
    assert result.exit_code == 2 and "say the same in two ways" in result.stderr


def test_a_kernel_left_to_stock_has_a_mapping_that_says_only_that(tawa):
    result = tawa("explain", *FILL, "--emit", "mapping")
    assert result.stdout == '[kernel]\nname = "fill"\nspecialised = false\n' and "left to stock" in result.stderr
