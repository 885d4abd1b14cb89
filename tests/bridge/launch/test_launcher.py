"""The launcher: descriptors, conditions, and the choice among the kernel, its persistent form and the stock kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tawa.bridge.launch.host import Host
from tawa.bridge.launch.launcher import Launcher
from tawa.machine.hopper import LEAST_CYCLES
from tawa.symbolic.host.expr import Apply, Argument, Condition, Number, multiply
from tawa.symbolic.host.launch_spec import DescriptorSpec, LaunchSpec

SPEC = LaunchSpec(
    (DescriptorSpec(0, Number(8), (Argument(1), Argument(2)), (Argument(2), Number(1)), (64, 32), "f16", 2, 3),),
    (Condition(Argument(2), "rows are whole", least=1, multiple=8),),
)


class Kernel(SimpleNamespace):
    """As much of a compiled kernel as a launch looks at."""

    def __init__(self) -> None:
        types = {"x": "*fp16", "M": "i32", "FLAG": "constexpr", "pair": ("i32", "constexpr")}
        metadata = SimpleNamespace(global_scratch_size=0)
        source = SimpleNamespace(signature=types)
        super().__init__(name="kernel", hash="hash", src=source, metadata=metadata, function=7, packed_metadata=None)


def launcher(
    ours: Callable[..., None], stock: Callable[..., None] | None = None, spec: LaunchSpec = SPEC, **more: Any
) -> Launcher:
    """A launcher whose descriptors stay as they are. ours, stock: what is called with all arguments of a launch."""
    kernel = SimpleNamespace(run=stock, function=1, packed_metadata=None)
    return Launcher(Kernel(), ours, spec, lambda number, descriptor: [descriptor, number], lambda: kernel, **more)


def launched(*args: Any) -> list[Any]:
    made: list[Any] = []
    launch = launcher(lambda *all_of: made.extend(all_of[9:]), lambda *all_of: made.append(("stock", all_of[9:])))
    launch(1, 1, 1, 0, 7, None, None, None, None, *args)
    return made


TENSOR = SimpleNamespace(data_ptr=lambda: 4096)


def test_a_launch_passes_the_descriptor_behind_the_arguments() -> None:
    made = launched(TENSOR, 100, True, (48, None))
    assert made[:4] == [TENSOR, 100, True, (48, None)]
    descriptor, number = made[4:]
    assert number == 0
    assert descriptor.base.data_ptr() == 4096 + 16
    assert (descriptor.shape, descriptor.strides, descriptor.padding) == ([100, 48], [48, 1], "zero")


def test_a_launch_that_breaks_a_condition_takes_the_stock_kernel() -> None:
    assert launched(TENSOR, 100, True, (44, None)) == [("stock", (TENSOR, 100, True, (44, None)))]


def test_a_launch_whose_tensor_begins_nowhere_takes_the_stock_kernel() -> None:
    """As a kernel has that computes a place under a condition only: pointer + M // G, if G > 0."""
    made: list[str] = []
    divided = replace(SPEC.descriptors[0], offset=Apply("divide", (Argument(1), Argument(2))))
    spec = LaunchSpec((divided,), ())
    for groups in (0, 4):
        launch = launcher(lambda *_: made.append("tawa"), lambda *_: made.append("stock"), spec)
        launch(1, 1, 1, 0, 7, None, None, None, None, TENSOR, 100, True, (groups, None))
    assert made == ["stock", "tawa"]


def memory(address: int) -> SimpleNamespace:
    return SimpleNamespace(data_ptr=lambda: address)


@pytest.mark.parametrize(
    ("grid", "rows", "stock"), [((4, 1, 1), 8, True), ((4, 2, 1), 8, False), ((1, 1, 1), 16, False)]
)
def test_a_launch_that_is_over_soon_takes_the_stock_kernel(grid: tuple[int, ...], rows: int, stock: bool) -> None:
    """Four SMs; each program takes a sixteenth of what is enough for every row."""
    made: list[str] = []
    spec = replace(
        SPEC, conditions=(), work=multiply(Argument(2), Number(LEAST_CYCLES // 16)), least_cycles=LEAST_CYCLES
    )
    launch = launcher(lambda *_: made.append("tawa"), lambda *_: made.append("stock"), spec, processors=4)
    for _ in range(2):
        launch(*grid, 0, 7, None, None, None, None, TENSOR, 100, True, (rows, None))
    assert made == 2 * ["stock" if stock else "tawa"]


@pytest.mark.parametrize(("programs", "stock"), [(4, False), (5, True)])
def test_a_kernel_that_pays_alone_is_stock_where_programs_share_an_sm(programs: int, stock: bool) -> None:
    made: list[str] = []
    spec = replace(SPEC, alone=True)
    launch = launcher(lambda *_: made.append("tawa"), lambda *_: made.append("stock"), spec, processors=4)
    launch(programs, 1, 1, 0, 7, None, None, None, None, TENSOR, 100, True, (48, None))
    assert made == ["stock" if stock else "tawa"]
    assert LaunchSpec.from_json(spec.to_json()) == spec


GRIDS = [((4, 1, 1), "single"), ((5, 1, 1), "persistent"), ((5, 2, 1), "single"), ((5, 1, 2), "single")]


@pytest.mark.parametrize(("grid", "wanted"), GRIDS)
def test_more_programs_than_sms_take_the_persistent_form(grid: tuple[int, int, int], wanted: str) -> None:
    """Four SMs. Not where the grid has an axis of which that form knows nothing."""
    made: list[Any] = []
    compiles: list[str] = []

    def compile_persistent() -> Any:
        compiles.append("once")
        run = launcher(
            lambda *all_of: made.append(("persistent", all_of[-1])), spec=replace(SPEC, axes=1), processors=4
        )
        return SimpleNamespace(run=run)

    spec = replace(SPEC, offered=1)
    launch = launcher(lambda *all_of: made.append(("single", all_of[:3])), spec=spec, processors=4,
                      compile_persistent=compile_persistent)  # fmt: skip
    for _ in range(2):
        launch(*grid, 0, 7, None, None, None, None, TENSOR, 100, True, (48, None))
    assert made == 2 * [(wanted, 5 if wanted == "persistent" else grid)]
    assert compiles == (["once"] if wanted == "persistent" else [])
    assert LaunchSpec.from_json(spec.to_json()) == spec


def test_a_persistent_form_is_not_compiled_while_launches_are_captured() -> None:
    made: list[str] = []
    capture = [False]
    run = launcher(lambda *_: made.append("persistent"), spec=replace(SPEC, axes=1), processors=4)
    launch = launcher(lambda *_: made.append("single"), spec=replace(SPEC, offered=1), processors=4,
                      compile_persistent=lambda: SimpleNamespace(run=run),
                      host=Host(capturing=lambda: capture[0]))  # fmt: skip
    for capture[0] in (True, True, False, True):
        launch(5, 1, 1, 0, 7, None, None, None, None, TENSOR, 100, True, (48, None))
    assert made == ["single", "single", "persistent", "persistent"]


def test_a_launch_that_is_captured_takes_the_stock_kernel_only_if_it_is_there() -> None:
    made: list[str] = []
    capture = [False]
    spec = replace(SPEC, conditions=(), work=Number(1), least_cycles=LEAST_CYCLES)
    launch = launcher(lambda *_: made.append("tawa"), lambda *_: made.append("stock"), spec, processors=4,
                      host=Host(capturing=lambda: capture[0]))  # fmt: skip
    for capture[0] in (True, False, True):
        launch(1, 1, 1, 0, 7, None, None, None, None, TENSOR, 100, True, (48, None))
    assert made == ["tawa", "stock", "stock"]


def test_without_a_persistent_form_a_launch_is_as_it_was() -> None:
    made: list[Any] = []
    launch = launcher(lambda *_: made.append("single"), spec=replace(SPEC, offered=1), processors=4)
    for _ in range(2):
        launch(5, 1, 1, 0, 7, None, None, None, None, TENSOR, 100, True, (48, None))
    assert made == ["single", "single"]


@pytest.mark.parametrize(
    ("grid", "programs"), [((3, 4, 1), 5), ((3, 1, 1), 3), ((3, 4, 2), None), ((1 << 20, 1 << 11, 1), None)]
)
def test_a_persistent_kernel_gets_the_size_of_its_grid(grid: tuple[int, int, int], programs: int | None) -> None:
    """Five SMs. The stock kernel where the grid has another axis, or more tiles than can be counted."""
    made: list[Any] = []
    spec = replace(SPEC, axes=2)
    launch = launcher(lambda *all_of: made.append((all_of[:3], all_of[-2:])), lambda *all_of: made.append(all_of[:3]),
                      spec, processors=5)  # fmt: skip
    launch(*grid, 0, 7, None, None, None, None, TENSOR, 100, True, (48, None))
    assert made == [grid if programs is None else ((programs, 1, 1), grid[:2])]
    assert LaunchSpec.from_json(spec.to_json()) == spec


def test_other_arguments_get_other_descriptors() -> None:
    made: list[Any] = []
    launch = launcher(lambda *all_of: made.append(all_of[-2].shape))
    for size in (100, 104, 100):
        launch(1, 1, 1, 0, 7, None, None, None, None, TENSOR, size, True, (48, None))
    assert made == [[100, 48], [104, 48], [100, 48]]
    assert len(launch.known) == 2


def test_only_arguments_that_matter_are_compared() -> None:
    """M does not decide what is launched here, nor does an address in place of a tensor."""
    made: list[Any] = []
    spec = LaunchSpec((), (Condition(Argument(2), "rows are whole", multiple=8),))
    launch = launcher(lambda *all_of: made.append(all_of[9:]), spec=spec)
    for tensor, size in ((TENSOR, 100), (TENSOR, 104), (4096, 100)):
        launch(1, 1, 1, 0, 7, None, None, None, None, tensor, size, True, (48, None))
    assert made == [(TENSOR, 100, True, (48, None)), (TENSOR, 104, True, (48, None)), (4096, 100, True, (48, None))]
    assert len(launch.known) == 1
