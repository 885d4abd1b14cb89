"""The log of the ptxas that Triton runs is kept."""

from __future__ import annotations

import pytest

from tawa.bridge.driver.spills import find_spills
from tawa.bridge.report.report import report, run_ptxas
from tawa.bridge.triton.artifacts import ptxas_log
from tests.bridge.driver.test_stock_run import compiled

pytestmark = pytest.mark.contract


def test_what_ptxas_said_as_triton_ran_it_is_what_it_says_again() -> None:
    with ptxas_log.kept_log() as log:
        made = compiled(None)
    found = find_spills(made.asm["ptx"], made.asm["cubin"], made.metadata, log.text)
    assert found.bytes == report(made).ptxas.spill_bytes
    assert run_ptxas(made.asm["ptx"]).spill_bytes == report(made).ptxas.spill_bytes


def test_outside_of_the_block_nothing_is_kept() -> None:
    with ptxas_log.kept_log() as log:
        pass
    compiled(None)
    assert log.text == ""
