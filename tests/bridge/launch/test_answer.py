"""What `tawa explain` says of launches is what the launcher does."""

from __future__ import annotations

import functools
import math
import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tawa.analysis.tma.boxes import OPEN
from tawa.analysis.tma.host_sizes import ALIGNED_FOR_TMA, STRIDES_OF_TMA
from tawa.analysis.tma.launch_choice import (
    clauses_of,
    grid_domain,
    grid_values,
    why_not_launchable,
)
from tawa.bridge.driver.data import Specialised
from tawa.bridge.launch.answer import Question, answer_for
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.launch.launcher import Launcher
from tawa.errors import PlanError
from tawa.machine.machines import SM_90
from tawa.plan import PlanOptions
from tawa.symbolic.host.conditions import simplified
from tawa.symbolic.host.expr import Argument, Condition
from tawa.symbolic.host.launch_spec import LaunchSpec
from tests.cases.pointers.cases import CASES
from tests.matrix.compiling import attempted, signature
from tests.support.sample import EVERY_CASE, sample

pytestmark = pytest.mark.usefixtures("without_ptx")

TYPES = {"x": "*fp16", "M": "i32", "FLAG": "constexpr", "K": "i32", "s": "fp32"}
POSITIVE, WHOLE = Condition(Argument(1), "sizes are positive", 1), Condition(Argument(2), "rows are whole", multiple=64)
SPEC = LaunchSpec((), (POSITIVE, WHOLE))


def kernel(
    spec: LaunchSpec, types: dict[str, Any] = TYPES, attrs: Any = (((3,), [["tt.divisibility", 16]]),), **more: Any
) -> Any:
    """As much of a compiled kernel as is asked."""
    record = {"applied": True, "launch": {**spec.to_json(), "measure": False, **more}}
    metadata = SimpleNamespace(tawa=record, global_scratch_size=0)
    source = SimpleNamespace(signature=types, attrs=dict(attrs), fn=SimpleNamespace(params=[]))
    return SimpleNamespace(metadata=metadata, src=source, name="kernel", hash="hash", function=1, packed_metadata=None)


def launcher(made: Any, spec: LaunchSpec) -> Launcher:
    return Launcher(made, print, spec, lambda *_: (), lambda: None, processors=SM_90.processors)


@functools.cache
def automatic() -> list[tuple[str, Any, LaunchSpec]]:
    """Kernels of which some launches cannot have the specialised form."""
    found: list[tuple[str, Any, LaunchSpec]] = []
    for case in sample(CASES[::3], 6):
        if case.name.startswith("block_pointers"):  # not in later Tritons
            continue
        with launched_by_us(True, case.kernel):
            made, _ = attempted(case, PlanOptions())
        if isinstance(made, Specialised) and made.launch.arguments:
            types = signature(case)
            found.append((case.name, kernel(made.launch, types.types, types.attributes.items()), made.launch))
    return found


def test_the_answer_is_the_launchers() -> None:
    """Of kernels with added descriptors, on arguments around the bounds; each of both answers comes up."""
    lot, seen = random.Random(0), set[str]()
    assert len(automatic()) > (10 if EVERY_CASE else 2)
    for name, made, spec in automatic():
        launch = launcher(made, spec)
        domain = Question(made, LaunchSpec()).of_types
        clauses = clauses_of(spec, len(launch.paths))
        condition = simplified(clauses, {**domain, **grid_domain(len(launch.paths))})
        for _ in range(60):
            values = {index: _value(it, lot) for index, it in domain.items()}
            arguments = {key: values.get(index) for index, key in _names(made, launch)}
            grid = (lot.choice([1, 16, 132, 133, 1056, 5000]), lot.choice([1, 1, 3]))
            told = [values.get(index, 0) for index in range(len(launch.paths))]
            stock = isinstance(launch.made(told, grid), str)
            answer = answer_for(made, arguments, grid, SM_90.processors)
            assert answer.decision == ("declined" if stock else "specialised"), (name, arguments, grid)
            assert all(it.holds([*told, *grid_values(grid)]) for it in condition) == (not stock), (name, arguments)
            seen.add(answer.decision)
    assert seen == {"declined", "specialised"}


def _names(made: Any, launch: Launcher) -> list[tuple[int, str]]:
    names = list(made.src.signature)
    return [(index, names[path[0]]) for index, path in enumerate(launch.paths) if path]


def _value(limits: Any, lot: random.Random) -> int:
    if math.isinf(limits.low):
        return 0
    step = max(1, limits.multiple)
    some = lot.choice([0, 1, 2, 8, 16, 64, 512, 1000, 4096, 100_000, OPEN, -16])
    return max(limits.low, min(limits.high, some)) // step * step


def test_no_condition_shows_how_the_host_computes() -> None:
    for name, made, _ in automatic():
        condition = answer_for(made).condition
        assert not any(word in condition for word in ("largest", "smallest", "+ -", "+ 63")), (name, condition)


def test_what_is_not_known_is_left_open() -> None:
    made = kernel(SPEC)
    assert answer_for(made).decision == "depends"
    assert answer_for(made).condition == "K % 64 == 0 and M > 0"
    plain = answer_for(made, {"K": 4096})
    assert (plain.decision, plain.condition) == ("specialised", "M > 0")  # which every launch of some size fulfils
    assert answer_for(made, {"K": 4096, "M": 7}).decision == "specialised"


def test_one_argument_can_decline() -> None:
    answer = answer_for(kernel(SPEC), {"M": 0})
    assert (answer.decision, answer.found) == ("declined", "M = 0")


def test_the_reason_is_the_launchers() -> None:
    answer = answer_for(kernel(SPEC), {"K": 16, "M": 1}, (8, 2))
    assert (answer.decision, answer.reason, answer.found) == ("declined", "rows are whole", "K = 16")
    assert answer.known == {"M": 1, "K": 16, "programs": 16}
    broken = answer_for(kernel(SPEC), {"K": 64, "M": 0}, (8, 2))
    assert (broken.reason, broken.cure) == ("sizes are positive", "arguments for which M > 0")


@pytest.mark.parametrize(
    ("reason", "cure"),
    [
        (STRIDES_OF_TMA, "pad the rows of the tensor, so that K % 64 == 0"),
        (ALIGNED_FOR_TMA, "let the tensor begin at a multiple of 16 bytes, so that K % 64 == 0"),
        ("rows are whole", "arguments for which K % 64 == 0"),
    ],
)
def test_a_launch_that_breaks_a_condition_has_a_cure(reason: str, cure: str) -> None:
    made = kernel(LaunchSpec((), (replace(WHOLE, reason=reason),)))
    assert answer_for(made, {"K": 16}, (8, 2)).cure == cure


def test_arguments_that_must_be_multiples_are_named_where_their_types_leave_that_open() -> None:
    """A launch marks them with ':16' and so gets another kernel, unless the kernel forbids that."""
    types = {"x": "*fp16", "M": "i32", "K": "i32", "N": "i32"}
    conditions = tuple(Condition(Argument(at), "rows are whole", multiple=16) for at in range(4))
    made = kernel(LaunchSpec((), conditions), types, {(2,): [["tt.divisibility", 16]]}.items())
    made.src.fn.params = [SimpleNamespace(name="N", do_not_specialize=True)]
    assert answer_for(made).unmarked == ("x", "M")


@pytest.mark.parametrize(("name", "value", "message"), [("FLAG", 3, "compiled for FLAG=2"), ("K", 64.5, "is no i32")])
def test_a_number_that_is_not_the_constant_in_its_place_or_not_whole_is_refused(
    name: str, value: float, message: str
) -> None:
    made = kernel(SPEC)
    made.src.constants = {(2,): 2}
    with pytest.raises(PlanError, match=rf"{name}={value}.*{message}"):
        answer_for(made, {name: value})
    assert answer_for(made, {"FLAG": 2, "K": 4096, "s": 0.5}).decision == "specialised"


@pytest.mark.parametrize(("name", "value"), [("K", 60), ("M", 1 << 40)])
def test_an_argument_that_is_not_of_its_type_is_refused(name: str, value: int) -> None:
    with pytest.raises(PlanError, match=f"{name}={value} is no i32"):
        answer_for(kernel(SPEC), {name: value})


def test_an_argument_that_the_kernel_has_not_is_refused() -> None:
    with pytest.raises(PlanError, match="no parameter 'Q'"):
        answer_for(kernel(SPEC), {"Q": 1})


def test_a_kernel_that_is_measured_depends_on_that() -> None:
    answer = answer_for(kernel(LaunchSpec(), measure=True))
    assert answer.decision == "depends" and "measures" in answer.condition


def test_a_persistent_kernel_asks_for_a_grid_that_it_can_count() -> None:
    made = kernel(LaunchSpec(axes=1))
    assert answer_for(made).condition == "programs <= 1073741824 and grid y <= 1 and grid z <= 1"
    assert answer_for(made, grid=(8, 2)).decision == "declined"
    assert answer_for(made, grid=(8,)).decision == "specialised"


def test_the_launcher_asks_the_same_function() -> None:
    launch = launcher(kernel(SPEC), SPEC)
    for m, k, grid in ((1, 48, (1,)), (1, 4096, (1,)), (0, 4096, (1,))):
        values = [0, m, k]
        why = why_not_launchable(SPEC, values, grid)
        made = launch.made([0, m, k], grid)
        assert (made if isinstance(made, str) else "") == why
