"""The launcher: descriptors, conditions, and the choice among the kernel, its other forms and the stock kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from types import SimpleNamespace
from typing import Any

import pytest

from tawa.bridge.launch.forecasts import Forecasts
from tawa.bridge.launch.host import Host
from tawa.bridge.launch.instead import IN_ORDER
from tawa.bridge.launch.launcher import Launcher
from tawa.plan import LoopPlan, Plan
from tawa.plan.option_conflicts import STOCK
from tawa.plan.thresholds import HEAVY_SPILL_BYTES
from tawa.symbolic.host.expr import Apply, Argument, Condition, Number
from tawa.symbolic.host.launch_spec import DescriptorSpec, Grouped, LaunchSpec

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


ALIGNED = replace(SPEC, conditions=(*SPEC.conditions, Condition(Argument(0), "TMA needs it", multiple=16)))


def test_a_launch_at_another_address_makes_only_its_descriptors_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    decided: list[int] = []
    launch = launcher(lambda *all_of: made.append(all_of[9:]), lambda *_: made.append("stock"), ALIGNED)
    decide = launch._decide
    monkeypatch.setattr(launch, "_decide", lambda *of: decided.append(len(made)) or decide(*of))
    rows = [(4096, 100), (8192, 100), (4096, 100), (8192 + 16, 100), (8192, 101), (8192 + 8, 100), (4096 + 8, 100)]
    for address, count in rows:
        launch(1, 1, 1, 0, 7, None, None, None, None, memory(address), count, True, (48, None))
    assert decided == [0, 3, 4, 5]  # another alignment, another number, an address that TMA cannot read
    assert [it if it == "stock" else it[4].base.data_ptr() - 16 for it in made[:5]] == [it for it, _ in rows[:5]]
    assert made[5:] == ["stock"] * 2
    assert made[4][4].shape == [101, 48] and made[3][4].shape == [100, 48]


def test_an_address_in_a_size_is_looked_at_itself() -> None:
    sized = replace(SPEC.descriptors[0], shape=(Argument(0), Argument(2)))
    assert ALIGNED.addresses == {0}
    assert replace(ALIGNED, descriptors=(sized,)).addresses == frozenset()
    for condition in (Condition(Argument(0), "", multiple=512), Condition(Argument(0), "", most=1 << 40)):
        assert replace(SPEC, conditions=(condition,)).addresses == frozenset()


class Foretold(Forecasts):
    """Forecasts by a rule: programs and rows decide. chosen: the Plan of a launch that has more than four programs."""

    def __init__(self, chosen: Plan) -> None:
        super().__init__("", {}, None, [(2, "N")], 4)
        self.chosen = chosen
        self.noted: list[tuple[Plan, Plan | str]] = []

    def choose(self, values: Sequence[Any], grid: Sequence[int], at_hand: bool = False) -> Any:
        """The chosen Plan where it exists, or may be made."""
        plan = self.chosen if prod(grid) > 4 and values[2] < 64 else None
        failed = any(it == (plan, "no") for it in self.noted)
        known = plan == STOCK or any(it == plan for it, _ in self.noted)
        return SimpleNamespace(plan=None if failed or (at_hand and not known) else plan, why="predicted")

    def note(self, plan: Plan, made: Plan | str, spilled: int = 0) -> None:
        """Remembers it."""
        super().note(plan, made, spilled)
        self.noted.append((plan, made))


PERSISTENT = Plan(form="persistent", groups=1)
COMPLETE = Plan(form="persistent", groups=1, loops=(LoopPlan(0, 1),))


def made_persistent(made: list[Any], spills: int = 0) -> Callable[[Plan], Any]:
    """Compiles a Plan. made: gets a text for each compile, and for each launch of its kernel."""

    def compile_plan(plan: Plan) -> Any:
        assert plan == PERSISTENT
        made.append("compiled")
        run = launcher(
            lambda *all_of: made.append(("persistent", all_of[-1])), spec=replace(SPEC, axes=1), processors=4
        )
        metadata = SimpleNamespace(tawa={"plan": COMPLETE.to_dict(), "spilled": spills})
        return SimpleNamespace(run=run, metadata=metadata)

    return compile_plan


@pytest.mark.parametrize(
    ("grid", "rows", "stock"), [((5, 1, 1), 8, True), ((4, 1, 1), 8, False), ((5, 1, 1), 64, False)]
)
def test_a_launch_that_is_predicted_to_be_slower_takes_the_stock_kernel(
    grid: tuple[int, ...], rows: int, stock: bool
) -> None:
    made: list[str] = []
    launch = launcher(lambda *_: made.append("tawa"), lambda *_: made.append("stock"), processors=4,
                      forecasts=Foretold(STOCK))  # fmt: skip
    for _ in range(2):
        launch(*grid, 0, 7, None, None, None, None, TENSOR, 100, True, (rows, None))
    assert made == 2 * ["stock" if stock else "tawa"]


def test_the_choice_is_made_anew_once_the_stock_kernel_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    known: list[Any] = []

    class Learning(Foretold):
        def learn(self, facts: Any) -> None:
            super().learn(None)
            known.append(facts)
            self.chosen = PERSISTENT

    monkeypatch.setattr("tawa.bridge.launch.launcher.facts_of", lambda kernel: kernel.run("facts"))
    launch = launcher(lambda *_: made.append("single"), lambda what, *_: what, processors=4,
                      compile_plan=made_persistent(made), forecasts=Learning(STOCK))  # fmt: skip
    for _ in range(2):
        launch(5, 1, 1, 0, 7, None, None, None, None, TENSOR, 100, True, (8, None))
    assert known == ["facts"] and made == ["compiled", ("persistent", 5), ("persistent", 5)]


def test_another_form_is_compiled_at_the_first_launch_that_gets_it() -> None:
    made: list[Any] = []
    foretold = Foretold(PERSISTENT)
    launch = launcher(lambda *_: made.append("single"), processors=4, compile_plan=made_persistent(made),
                      forecasts=foretold)  # fmt: skip
    for programs in (4, 5, 5, 6, 4):
        launch(programs, 1, 1, 0, 7, None, None, None, None, TENSOR, 100, True, (48, None))
    assert made == ["single", "compiled", ("persistent", 5), ("persistent", 5), ("persistent", 6), "single"]
    assert foretold.noted == [(PERSISTENT, COMPLETE)]


@pytest.mark.parametrize("grid", [(5, 2, 1), (5, 1, 2)])
def test_a_form_that_cannot_cover_the_grid_is_not_launched(grid: tuple[int, int, int]) -> None:
    """The persistent form of this kernel knows the first size of the grid only."""
    made: list[Any] = []
    launch = launcher(lambda *_: made.append("single"), processors=4, compile_plan=made_persistent(made),
                      forecasts=Foretold(PERSISTENT))  # fmt: skip
    for _ in range(2):
        launch(*grid, 0, 7, None, None, None, None, TENSOR, 100, True, (48, None))
    assert made == ["compiled", "single", "single"]


def test_a_plan_of_a_table_that_cannot_be_made_is_not_predicted_either() -> None:
    """The table and the forecast name the same form; it is tried once."""
    made: list[Any] = []

    def fails(plan: Plan) -> Any:
        made.append("tried")
        return "no"

    measured = SimpleNamespace(arguments=frozenset[int](), lookup=lambda *_: PERSISTENT, measure=lambda *_: None)
    launch = launcher(lambda *_: made.append("single"), processors=4, compile_plan=fails, choices=measured,
                      forecasts=Foretold(PERSISTENT))  # fmt: skip
    for programs in (5, 6):
        launch(programs, 1, 1, 0, 7, None, None, None, None, TENSOR, 100, True, (48, None))
    assert made == ["tried", "single", "single"]


def test_a_form_that_cannot_be_made_is_left_out() -> None:
    made: list[Any] = []
    foretold = Foretold(PERSISTENT)
    launch = launcher(lambda *_: made.append("single"), processors=4, compile_plan=lambda plan: "no",
                      forecasts=foretold)  # fmt: skip
    for programs in (5, 6):
        launch(programs, 1, 1, 0, 7, None, None, None, None, TENSOR, 100, True, (48, None))
    assert made == ["single", "single"]
    assert foretold.noted == [(PERSISTENT, "no")]


@pytest.mark.parametrize("spilled", [100, 900, 4096])
def test_a_form_that_spills_is_predicted_with_its_spills_and_left_out_only_if_they_are_many(spilled: int) -> None:
    made: list[Any] = []
    foretold = Foretold(PERSISTENT)
    launch = launcher(lambda *_: made.append("single"), processors=4, forecasts=foretold,
                      compile_plan=made_persistent(made, spilled))  # fmt: skip
    launch(5, 1, 1, 0, 7, None, None, None, None, TENSOR, 100, True, (48, None))
    way = foretold.made[PERSISTENT]
    if spilled < HEAVY_SPILL_BYTES:
        assert not isinstance(way, str) and way.facts.spilled == spilled
    else:
        assert isinstance(way, str) and f"it spills {spilled} bytes" in way
    assert made == ["compiled", ("persistent", 5)]


def test_another_form_is_not_compiled_while_launches_are_captured() -> None:
    made: list[Any] = []
    capture = [False]
    launch = launcher(lambda *_: made.append("single"), processors=4, compile_plan=made_persistent(made),
                      forecasts=Foretold(PERSISTENT), host=Host(capturing=lambda: capture[0]))  # fmt: skip
    for capture[0] in (True, True, False, True):
        launch(5, 1, 1, 0, 7, None, None, None, None, TENSOR, 100, True, (48, None))
    assert made == ["single", "single", "compiled", ("persistent", 5), ("persistent", 5)]


def test_a_launch_that_is_captured_takes_the_stock_kernel_only_if_it_is_there() -> None:
    made: list[str] = []
    capture = [False]
    launch = launcher(lambda *_: made.append("tawa"), lambda *_: made.append("stock"), processors=4,
                      forecasts=Foretold(STOCK), host=Host(capturing=lambda: capture[0]))  # fmt: skip
    for capture[0] in (True, False, True):
        launch(5, 1, 1, 0, 7, None, None, None, None, TENSOR, 100, True, (48, None))
    assert made == ["tawa", "stock", "stock"]


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


def test_a_launch_of_programs_that_share_a_cta_has_a_smaller_grid() -> None:
    made: list[tuple[Any, ...]] = []
    for spec, programs in ((LaunchSpec(grouped=Grouped(1, 3)), 1), (LaunchSpec(axes=2, grouped=Grouped(1, 3)), 2)):
        launch = launcher(lambda *all_of: made.append(all_of), spec=spec, processors=programs)
        launch(5, 7, 1, 0, 7, None, None, None, None, TENSOR, 100, True, (8, None))
    assert [call[:3] for call in made] == [(5, 3, 1), (2, 1, 1)]
    assert made[0][-1:] == (7,)  # the size of the grid along the axis
    assert made[1][-3:] == (7, 5, 3)  # and then the grid of CTAs, for the persistent form


# -- rows in another order ---------------------------------------------------------------------------------------------

EVEN = replace(SPEC, conditions=(Condition(Argument(1), "even rows, then odd ones", multiple=2, only_for="rows"),))


def told(
    spec: LaunchSpec = EVEN, rows: int = 100, free: bool = True, compiled: Any = None, capturing: bool = False
) -> list[Any]:
    """What a launch of `rows` rows gets, and the Plans that are compiled for it."""
    made: list[Any] = []
    other = SimpleNamespace(run=lambda *_: made.append("in order"), function=2, packed_metadata=None)

    def by_plan(plan: Plan) -> Any:
        made.append(plan)
        return compiled or other

    launch = launcher(lambda *_: made.append("ordered"), lambda *_: made.append("stock"), spec, compile_plan=by_plan,
                      without={"rows": IN_ORDER} if free else {}, host=Host(capturing=lambda: capturing))  # fmt: skip
    launch(1, 1, 1, 0, 7, None, None, None, None, TENSOR, rows, True, (48, None))
    return made


def test_a_measured_plan_that_a_launch_does_not_allow_is_not_the_end() -> None:
    """Other launches of its class were measured: this one gets what it would get without measurements."""
    made: list[Any] = []
    measured, whole = Plan(form="as_written", groups=2), Condition(Argument(1), "rows are whole", multiple=8)

    def by_plan(plan: Plan) -> Any:
        run = launcher(lambda *_: made.append("measured"), spec=replace(SPEC, conditions=(whole,)))
        return SimpleNamespace(run=run, function=2, packed_metadata=None)

    choices = SimpleNamespace(lookup=lambda values, grid: measured, arguments=frozenset((1,)))
    launch = launcher(lambda *_: made.append("ours"), lambda *_: made.append("stock"), compile_plan=by_plan,
                      choices=choices)  # fmt: skip
    for rows in (96, 99):
        launch(1, 1, 1, 0, 7, None, None, None, None, TENSOR, rows, True, (48, None))
    assert made == ["measured", "ours"]


def test_rows_that_cannot_be_ordered_are_loaded_in_order() -> None:
    assert told() == ["ordered"]
    assert told(rows=99) == [IN_ORDER, "in order"]


def test_a_launch_that_breaks_another_condition_gets_the_stock_kernel() -> None:
    other = replace(EVEN, conditions=(Condition(Argument(1), "sizes are positive", least=1000), *EVEN.conditions))
    assert told(other, rows=99) == ["stock"]


def test_rows_that_the_user_ordered_stay_so_or_the_stock_kernel_is_launched() -> None:
    assert told(rows=99, free=False) == ["stock"]


def test_a_kernel_in_order_that_cannot_be_compiled_is_stock_triton() -> None:
    assert told(rows=99, compiled="it does not fit") == [IN_ORDER, "stock"]


def test_nothing_is_compiled_in_order_while_launches_are_captured() -> None:
    assert told(rows=99, capturing=True) == ["stock"]
