"""Forecasts for the launches of one kernel: the form that each launch gets, by the model of time.

first launch of a kernel        its TTIR is read, a few milliseconds
first launch of about a size    the model's times for every form, 1 to 5 ms
later launches of such a size   a look into a dict; the same launch again: nothing (`tawa.bridge.launch.launcher`)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

from tawa.bridge.launch.stock_facts import recorded_facts
from tawa.bridge.report import record
from tawa.machine.machines import SM_90, machine_of
from tawa.plan import Plan
from tawa.plan.cost.programs import Program, ProgramFacts
from tawa.plan.option_conflicts import STOCK

if TYPE_CHECKING:  # a launch whose form is known needs no model
    from tawa.plan.cost.launches import Launch
    from tawa.plan.search.search import Forecast, Search

_DIGITS = 3
"""Binary digits of a number that two launches of about one size share."""
_MOST_KNOWN = 1024


class Forecasts:
    """The forecasts of one kernel.

    ttir: as Triton hands it down. about: what the compile recorded (`forecast_facts`). plan: that of the compiled
    kernel; None for stock Triton's. sizes: the arguments that the amount of work depends on, number and name.
    processors: SMs. facts: of stock Triton's compiled kernel, if known. learned: whether nothing more can be known.
    """

    def __init__(
        self, ttir: str, about: Mapping[str, Any], plan: Plan | None, sizes: Sequence[tuple[int, str]], processors: int,
        facts: ProgramFacts | None = None,
    ) -> None:  # fmt: skip
        self.ttir, self.about, self.plan, self.sizes, self.processors = ttir, about, plan, tuple(sizes), processors
        self.arguments = frozenset(index for index, _ in sizes)
        self.known: dict[tuple[int, ...], Forecast] = {}
        self.made: dict[Plan, Program | str] = {}
        self.spilled: int = about.get("spilled", 0)
        self.facts, self.learned = facts, facts is not None

    @cached_property
    def search(self) -> Search | None:
        """What is needed to choose; None if the kernel cannot be read."""
        from tawa.analysis.work.workload import find_workload
        from tawa.bridge.triton.structured import new_context, read_kernel
        from tawa.plan.search.search import Search
        from tawa.plan.search.space import Space

        workload = find_workload(read_kernel(self.ttir, new_context()))
        if workload is None:
            return None
        about = self.about
        space = Space(
            about["num_warps"], about["num_stages"], workload, about["promoted"], about["persistent"], self.facts,
            max_registers=about["max_registers"], machine=machine_of(about["capability"]),
        )  # fmt: skip
        own = Plan.of(about["own"]) if about["own"] is not None else None
        program = None
        if self.plan is not None:
            program = self._program(self.plan, about["spilled"]) if self.plan.partitioned else space.stock
        forms = tuple(Plan.of(it) for it in about["forms"])
        return Search(space, forms, own, program, about["stock"])

    @cached_property
    def declined(self) -> dict[Plan, Program]:
        """The program that the compile tried and declined, by the Plan that asks for its form."""
        if self.about.get("tried") is None or self.search is None:
            return {}
        from tawa.plan.search.space import form_of

        tried = Plan.of(self.about["tried"])
        return {form_of(self.search.space, tried): self._program(tried, self.spilled)}

    def choose(self, values: Sequence[Any], grid: Sequence[int], at_hand: bool = False) -> Forecast | None:
        """The forecast for a launch; None if nothing can be said.

        values: of the arguments of the kernel's function. at_hand: choose among the forms that are compiled already.
        """
        key = self.size(values, grid)
        if key in self.known and not at_hand:
            return self.known[key]
        if self.search is None:
            return None
        launch = self._launch(self.search, values, grid)
        found = self.search.choose(launch, self.made, at_hand, self.declined)
        if not at_hand:
            if len(self.known) >= _MOST_KNOWN:
                self.known.clear()
            self.known[key] = found
        return found

    def restated(self, values: Sequence[Any], grid: Sequence[int], plan: Plan) -> str:
        """The forecast for a launch that gets a kernel, with all that is known by now. plan: complete."""
        from tawa.plan.search.space import form_of

        if self.search is None:
            return ""
        launch, form = self._launch(self.search, values, grid), form_of(self.search.space, plan)
        return str(self.search.of_form(launch, form, self.made))

    def ranked(self, values: Sequence[Any], grid: Sequence[int]) -> tuple[tuple[tuple[Plan | None, str], ...], bool]:
        """The forms that launches like this one may try, with words for people, and whether memory decides their work.

        None is the compiled kernel.
        """
        search = self.search
        if search is None:
            return (), True
        launch = self._launch(search, values, grid)
        forms = tuple((None if it == search.own else it, search.space.words(it)) for it in search.in_launches(launch))
        return forms, launch.visits.guessed

    def _launch(self, search: Search, values: Sequence[Any], grid: Sequence[int]) -> Launch:
        from tawa.plan.cost.launches import launch_of

        arguments = [
            int(value) if index in self.arguments and isinstance(value, int) else None
            for index, value in enumerate(values)
        ]
        return launch_of(search.space.workload, arguments, grid, self.processors)

    def note(self, plan: Plan, made: Plan | str, spilled: int = 0) -> None:
        """A form was compiled, and the planner completed its Plan; a text says why it could not be compiled.

        spilled: bytes of spill stores and loads. If they are many, and more than in the kernels that there are, the
        form is left out.
        """
        from tawa.plan.search.search import spilled_text, spills_too_much

        others = self.spilled, self.facts.spilled if self.facts is not None else 0
        if isinstance(made, str):
            self.made[plan] = f"it could not be compiled: {made}"
        else:
            left_out = spills_too_much(spilled, others)
            self.made[plan] = spilled_text(spilled) if left_out else self._program(made, spilled)
        self.known.clear()

    def learn(self, facts: ProgramFacts | None) -> None:
        """Stock Triton's kernel was compiled; None if nothing more is known of it. Choices are made anew."""
        self.learned = True
        if facts is None:
            return
        self.facts = facts
        self.known.clear()
        if "search" in vars(self) and self.search is not None:
            self.search = replace(self.search, space=self.search.space.knowing(facts))

    def learn_of_stock(self, facts: Callable[[], ProgramFacts | None]) -> None:
        """Learns the facts of stock Triton's kernel, if they are not known. facts: compiles it to find them."""
        if not self.learned:
            self.learn(facts())

    def size(self, values: Sequence[Any], grid: Sequence[int]) -> tuple[int, ...]:
        """The same for launches of about one size."""
        numbers = [values[index] for index, _ in self.sizes]
        rounded = [_rounded(int(it)) if isinstance(it, int) else 0 for it in numbers]
        return (*rounded, *map(_rounded, grid), -(-prod(grid) // self.processors) if prod(grid) < _FEW else 0)

    def _program(self, plan: Plan, spilled: int) -> Program:
        if not plan.partitioned and self.search is not None:
            return self.search.space.program(plan)
        return Program(
            plan, ProgramFacts(spilled=spilled), machine=machine_of(self.about.get("capability", SM_90.capability))
        )


_FEW = 1 << 10
"""Grids of fewer programs are told apart by their waves."""


def _rounded(number: int) -> int:
    """A number with its first binary digits."""
    left = max(0, abs(number).bit_length() - _DIGITS)
    return (abs(number) >> left << left) * (1 if number >= 0 else -1)


def forecast_facts(search: Search, spilled: int = 0, tried: Plan | None = None) -> dict[str, Any] | None:
    """What `Forecasts` needs to know of a compile; None if there is nothing to choose from.

    search: beside the form that was compiled. tried: the complete Plan of a form that was declined because it spills.
    spilled: bytes of spill stores and loads of the compiled form, or of the declined one.
    """
    space = search.space
    if not search.forms and not search.stock:
        return None
    return {
        "capability": space.machine.capability,
        "num_warps": space.num_warps,
        "num_stages": space.num_stages,
        "max_registers": space.max_registers,
        "promoted": space.promoted,
        "persistent": space.persistent,
        "own": search.own.to_dict() if search.own is not None else None,
        "spilled": spilled,
        "tried": tried.to_dict() if tried is not None else None,
        "forms": [it.to_dict() for it in search.forms],
        "stock": search.stock,
    }


def forecasts_of(kernel: Any, processors: int) -> Forecasts | None:
    """The forecasts of a kernel that is being loaded; None if all its launches get the same."""
    known = getattr(kernel.metadata, record.KEY, None) or {}
    about, tuning = (known.get("launch") or {}).get("forecast"), known.get("tuning")
    if about is None or tuning is None or "ttir" not in kernel.asm:  # TRITON_STORE_BINARY_ONLY
        return None
    sizes = [(index, name) for index, name in tuning["sizes"]]
    return Forecasts(kernel.asm["ttir"], about, record.plan_of(known), sizes, processors, recorded_facts(known))


__all__ = ["STOCK", "Forecasts", "forecast_facts", "forecasts_of"]
