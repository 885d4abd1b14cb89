"""Random kernels that are specialised, written in Gluon and compiled again, are not refuted and give the same bits.

``TAWA_EMITTED=100`` tries more of them.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

pytest.importorskip("triton.experimental.gluon")

from hypothesis import HealthCheck, Phase, event, given, note, settings

from tawa.bridge.gluon.emit import compile_emitted, emit_gluon
from tawa.bridge.triton.read_module import read_final
from tawa.errors import EmitError, PlanError, ResourceError
from tests.cases.case import Case
from tests.cases.compiled import compile_case
from tests.cases.random import loops
from tests.cases.random.source import Recipe, case_of, load_kernel, recipes
from tests.cases.random.text import render
from tests.cases.simulated import simulated

pytestmark = pytest.mark.usefixtures("without_ptx")

EXAMPLES = max(2, int(os.environ.get("TAWA_EMITTED", "2")) // 10)
FEW = settings(
    max_examples=EXAMPLES, database=None, phases=(Phase.generate,),
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
)  # fmt: skip


def examine(case: Case) -> str:
    """Returns what became of a kernel.

    Raises AssertionError for other bits, and EmitError for a module that is refuted.
    """
    try:
        compiled = compile_case(case, only_if_faster=False)
        emitted = emit_gluon(compiled)
    except (PlanError, ResourceError) as error:
        return f"refused: {type(error).__name__}"
    except EmitError as error:
        if "refuted" in str(error):
            raise
        return f"not written: {str(error).splitlines()[0]}"
    wanted = simulated(case, read_final(compiled))  # type: ignore[arg-type]
    found = simulated(case, read_final(compile_emitted(emitted)))  # type: ignore[arg-type]
    for name, values in wanted.items():
        assert np.asarray(values).tobytes() == np.asarray(found[name]).tobytes(), name
    return "written"


@given(recipes())
@FEW
def test_a_random_kernel_that_is_written_in_gluon_keeps_its_bits(
    tmp_path_factory: pytest.TempPathFactory, recipe: Recipe
) -> None:
    text = render(recipe)
    note(text)
    event(examine(case_of(recipe, load_kernel(text, tmp_path_factory.mktemp("program")), "program")))


def test_rings_that_share_tiles_are_not_both_written_as_rings(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The tiles of the second operand were part of a ring of their own, and of one with the tiles behind pointers."""
    recipe = Recipe(
        "fp16", (64, 64, 64), 4, "three", "while", "while", "listed", "triangular", 1, "none", "branch", "relu", "none",
        (), False, "mixed", "wrapped", 0, False, False, "pointer", False, 40, 1, 0, None,
    )  # fmt: skip
    assert (
        examine(case_of(recipe, load_kernel(render(recipe), tmp_path_factory.mktemp("program")), "program"))
        == "written"
    )


@given(loops.programs())
@FEW
def test_random_loops_that_are_written_in_gluon_keep_their_bits(
    tmp_path_factory: pytest.TempPathFactory, program: loops.Loops
) -> None:
    note(loops.render(program))
    event(examine(loops.case_of(program, tmp_path_factory.mktemp("program"))))
