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
from tawa.demo.exhibits import compile_case
from tawa.errors import EmitError, PlanError, ResourceError
from tawa.runtime.case import Case
from tests.cases.random import loops
from tests.cases.random.source import Recipe, case_of, load_kernel, recipes
from tests.cases.random.text import render
from tests.cases.simulated import simulated

EXAMPLES = max(2, int(os.environ.get("TAWA_EMITTED", "2")) // 10)
FEW = settings(
    max_examples=EXAMPLES, database=None, deadline=None, phases=(Phase.generate,),
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
)  # fmt: skip


def examine(case: Case) -> None:
    """Raises AssertionError for other bits, and EmitError for a module that is refuted."""
    try:
        compiled = compile_case(case, only_if_faster=False)
        emitted = emit_gluon(compiled)
    except (PlanError, ResourceError) as error:
        return event(f"refused: {type(error).__name__}")
    except EmitError as error:
        if "refuted" in str(error):
            raise
        return event(f"not written: {str(error).splitlines()[0]}")
    note(emitted.text)
    wanted = simulated(case, read_final(compiled))  # type: ignore[arg-type]
    found = simulated(case, read_final(compile_emitted(emitted, compiled)))  # type: ignore[arg-type]
    for name, values in wanted.items():
        assert np.asarray(values).tobytes() == np.asarray(found[name]).tobytes(), name
    return event("written")


@given(recipes())
@FEW
def test_a_random_kernel_that_is_written_in_gluon_keeps_its_bits(
    tmp_path_factory: pytest.TempPathFactory, recipe: Recipe
) -> None:
    text = render(recipe)
    note(text)
    examine(case_of(recipe, load_kernel(text, tmp_path_factory.mktemp("program")), "program"))


@given(loops.programs())
@FEW
def test_random_loops_that_are_written_in_gluon_keep_their_bits(
    tmp_path_factory: pytest.TempPathFactory, program: loops.Loops
) -> None:
    note(loops.render(program))
    examine(loops.case_of(program, tmp_path_factory.mktemp("program")))
