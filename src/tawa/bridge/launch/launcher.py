"""The launcher of one kernel with added arguments, or with a choice: the kernel, another form of it, the stock kernel.

Each launch needs the descriptors that the kernel's `LaunchSpec` makes of its arguments. If a condition of the spec does
not hold, the stock kernel is launched, or, where only a decision of Tawa needs the condition, the kernel without that
decision (`tawa.bridge.launch.instead`). Otherwise the launch gets what the model of time predicts to be the fastest for
it (`tawa.bridge.launch.forecasts`): this kernel, another form, which is compiled at the first launch that gets it, or
the stock kernel. A persistent form is launched with the programs that its SMs hold, and with the size of the grid
behind the arguments. A kernel whose programs take their tiles from a counter gets the address of one at each launch,
and a kernel whose programs share tiles gets those of a workspace and of semaphores, and more programs.

The decision is made once for each value of the arguments that it depends on (`Launcher._decide`), and the descriptors
are kept in the form that the hardware reads. A later launch looks its arguments up in a dict, and calls the launcher
that Triton made for the kernel. If only addresses are others, only descriptors are made anew. Host time per launch
matters: kernels may take only 10 µs, and Triton's autotuner counts it (`bench/launch_time.py`).

Where Plans of the kernel were measured (`tawa.runtime.tuning`), the fastest Plan for such a launch decides instead, and
the kernel of that Plan is launched. With ``mode="measure"`` the first launch of its kind measures them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from math import prod
from types import MappingProxyType
from typing import Any

from tawa.analysis.tma.launch_choice import why_not_launchable
from tawa.bridge.launch.argument_paths import argument_paths, value_at
from tawa.bridge.launch.descriptors import Encoder, Passed, made_descriptor
from tawa.bridge.launch.first.background import Task, submit
from tawa.bridge.launch.first.clock import event_clock
from tawa.bridge.launch.first.elsewhere import WorkerLost, rank
from tawa.bridge.launch.first.learning import Learner, Lesson, Made, learning
from tawa.bridge.launch.first.stock_first import StockFirst
from tawa.bridge.launch.first.tuners import is_tuning, measurement
from tawa.bridge.launch.forecasts import Forecasts
from tawa.bridge.launch.host import NO_HOST, Choices, Host
from tawa.bridge.launch.instead import plan_instead
from tawa.bridge.launch.launch_key import key_of, with_tensors
from tawa.bridge.launch.stock_facts import facts_of, recorded_facts
from tawa.bridge.launch.straight import straight
from tawa.bridge.launch.tile_counters import TileCounters, process_counters
from tawa.bridge.launch.workspaces import Workspaces, process_workspaces
from tawa.bridge.launch.wrappers import awaiting, with_counter, with_scratch, with_workspace
from tawa.bridge.report.record import KEY, plan_of, spilled_bytes
from tawa.plan import Plan
from tawa.plan.option_conflicts import STOCK
from tawa.symbolic.host.expr import Choice
from tawa.symbolic.host.launch_spec import LaunchSpec, alignment

_log = logging.getLogger("tawa")

_MOST_KNOWN = 1024


class Launcher:
    """Called in place of Triton's launcher. kernel: the compiled kernel. inner: Triton's launcher of it.

    encode: see `encoder`. compile_stock: compiles the stock kernel. processors: SMs. choices: what was measured, or
    will be; None: nothing. compile_plan: compiles the kernel by a Plan; it returns why that is impossible. passed:
    turns the arguments of a launch into those of `inner`; None if they are the same. forecasts: what is predicted;
    None: every launch gets this kernel. without: the Plans for launches that violate a condition which only a decision
    of Tawa needs (`tawa.bridge.launch.instead.plans_without`). counters: of tiles; None: those of
    the process. workspaces: of programs that share tiles; None: those of the process.
    """

    def __init__(
        self, kernel: Any, inner: Callable[..., None], spec: LaunchSpec, encode: Encoder,
        compile_stock: Callable[[], Any], processors: int = 1, host: Host = NO_HOST, choices: Choices | None = None,
        compile_plan: Callable[[Plan], Any] = lambda plan: "no Plan can be compiled here",
        passed: Passed | None = None, forecasts: Forecasts | None = None,
        without: Mapping[Choice, Plan] = MappingProxyType({}),
        counters: TileCounters | None = None, workspaces: Workspaces | None = None,
    ) -> None:  # fmt: skip
        self.kernel, self.inner, self.spec, self.encode, self.passed = kernel, straight(inner), spec, encode, passed
        self.compile_stock, self.processors, self.forecasts = compile_stock, processors, forecasts
        self.types = tuple(kernel.src.signature.values())
        self.choices, self.compile_plan = choices, compile_plan
        self.paths = argument_paths(self.types)
        self.readers = [value_at(path) for path in self.paths]
        decide = frozenset[int]().union(*(it.arguments for it in (choices, forecasts) if it is not None))
        self._read(spec.arguments | decide, spec.addresses - decide)
        self.known: dict[tuple[Any, ...], Made] = {}
        self.alike: dict[tuple[Any, ...], Made] = {}
        """By grid and arguments, with the alignment of addresses in their place."""
        self.scratch = bool(kernel.metadata.global_scratch_size)
        self.by_plan: dict[Plan, Any] = {}
        self.host, self.without, self.counters, self.workspaces = host, without, counters, workspaces
        known = getattr(kernel.metadata, KEY, None) or {}
        own = plan_of(known) if known.get("plan") is not None else None
        self.plan = replace(own, launches=None) if own is not None else None
        self.learner: Learner | None = None
        self.left_out = ""  # why no launch may get this kernel
        self.make: Callable[[Plan, bool], Any] | None = None
        self.load: Callable[[Any], Any] = lambda kernel: kernel
        self.tasks: dict[Plan, Task] = {}

    def __call__(
        self, grid_0: int, grid_1: int, grid_2: int, stream: int, function: int, packed: Any, launch_metadata: Any,
        enter: Any, leave: Any, *args: Any,
    ) -> None:  # fmt: skip
        """Launches with added arguments; another kernel where that is better, or these arguments demand it."""
        try:
            key = self.key_of(args)
        except AttributeError:  # an address in place of a tensor
            key = self.key_of(with_tensors(self.types, args))
        made = self.known.get((grid_0, grid_1, grid_2, key)) or self._moved((grid_0, grid_1, grid_2), key, args)
        if made is None:
            made = self._decide((grid_0, grid_1, grid_2), stream, (launch_metadata, enter, leave), args)
        given = args if made.passed is None else made.passed(args)
        made.inner(*made.grid, stream, *made.kernel, launch_metadata, enter, leave, *given, *made.added)

    def settled(self, grid: tuple[int, int, int], args: Sequence[Any]) -> Made | None:
        """What a launch gets; None if it is like none that was made, or that may change. args: tensors and numbers.

        None, too, if it depends on a tensor that the kernel takes as a descriptor.
        """
        if self.learner is not None or not self.plain:
            return None
        key = self.key_of(args)
        made = self.known.get((*grid, key)) or self._moved(grid, key, args)
        return made if made is not None and made.moved is not None else None

    def _read(self, arguments: frozenset[int], addresses: frozenset[int]) -> None:
        """What decides over a launch, and of which of these arguments only the alignment does."""
        self.read, self.addresses, self.key_of = arguments, addresses, key_of(self.types, arguments)
        self.plain = all(len(self.paths[at]) == 1 for at in arguments)  # no descriptor of the user's

    def _class(self, grid: tuple[int, ...], values: Sequence[Any]) -> tuple[Any, ...]:
        """The same for launches that differ in addresses only, with the same alignment."""
        addresses = self.addresses
        return (*grid, *[alignment(values[at]) if at in addresses else values[at] for at in self.read])

    def _moved(self, grid: tuple[int, ...], key: Any, args: Sequence[Any]) -> Made | None:
        """As `_decide` for a launch that differs from an earlier one in addresses only; None if there was none."""
        if not self.alike or len(self.known) >= _MOST_KNOWN:
            return None
        values: list[Any] = [None] * len(self.readers)
        for at in self.read:
            values[at] = self.readers[at](args)
        known, like = self.known, self.alike.get(self._class(grid, values))
        if like is None or like.moved is None:
            return None
        made = known[*grid, key] = like.moved(values)
        return made

    def _decide(self, grid: tuple[int, ...], stream: int, hooks: tuple[Any, ...], args: tuple[Any, ...]) -> Made:
        """Chooses the kernel for all launches with this grid and these arguments, and keeps the choice."""
        measured, at = measurement(), (self, *grid, self.key_of(with_tensors(self.types, args)))
        if measured is not None and at in measured.made:
            return measured.made[at]
        if len(self.known) >= _MOST_KNOWN:
            self.known.clear()
            self.alike.clear()
        values, known, alike = [read(args) for read in self.readers], self.known, self.alike
        before, learning.awaited = learning.awaited, None
        plan = self._chosen(values, grid, stream, hooks, args) if self.choices is not None else None
        if plan is None and self.learner is not None:
            made = self._learning(self.learner, values, grid)
        else:
            made = self.choose(values, grid, plan)
        if isinstance(made, str):
            made = self._stock_made(made, grid)
        if learning.awaited is not None:
            made = replace(made, inner=awaiting(learning.awaited, made.inner), moved=None)
        else:
            learning.awaited = before
        if measured is not None:
            measured.made[at] = made
        elif not self.host.capturing():
            # `made` may have changed `key_of`, and choices made before others ended are forgotten.
            known[*grid, self.key_of(with_tensors(self.types, args))] = made
            alike[self._class(grid, values)] = made
        return made

    def foresee(self, values: Sequence[Any], grid: tuple[int, ...]) -> Made | str:
        """What a launch will get, as far as nothing is measured for it. A text says why it gets the stock kernel."""
        return self.choose(values, grid, self.choices.lookup(values, grid) if self.choices is not None else None)

    def choose(self, values: Sequence[Any], grid: tuple[int, ...], plan: Plan | None) -> Made | str:
        """What a launch gets; a text says why it gets the stock kernel. plan: by measurements; None: predict it."""
        if plan is None:
            return self.predicted(values, grid)
        if plan not in (STOCK, self.plan) and self._is_awaited(plan, is_known=True):
            return "its fastest form is compiled in the background"
        made = self.made(values, grid) if plan == self.plan else self.made_by(plan, values, grid)
        if isinstance(made, str) and plan.form != "stock":  # other launches of its class can have it
            return self.predicted(values, grid)
        return made

    def _instead(self, values: Sequence[Any]) -> Plan | None:
        """The Plan for a launch that violates conditions which it can do without; None if no such kernel can be had."""
        plan = plan_instead(self.spec, self.without, values)
        if plan is None or isinstance(self.by_plan.get(plan), str):
            return None
        return plan if plan in self.by_plan or not self.host.capturing() else None

    def _chosen(
        self, values: Sequence[Any], grid: tuple[int, ...], stream: int, hooks: tuple[Any, ...], args: tuple[Any, ...]
    ) -> Plan | None:
        """The Plan that such a launch gets according to measurements; None without any."""
        assert self.choices is not None
        plan = self.choices.lookup(values, grid)
        if plan is not None:
            at_hand = plan.form == "stock" or plan == self.plan or plan in self.by_plan
            return plan if at_hand or not self.host.capturing() else None
        if self.host.capturing():
            return None

        def prepare(plan: Plan) -> Callable[[], None] | str:
            made = self.made_by(plan, values, grid)
            if isinstance(made, str):
                if plan.form != "stock":
                    return made
                made = self._stock_made("to be measured", grid)
            elif isinstance(kernel := self.by_plan[plan], str):
                return kernel
            given = args if made.passed is None else made.passed(args)
            return partial(made.inner, *made.grid, stream, *made.kernel, *hooks, *given, *made.added)

        before = dict(self.by_plan)
        plan = self.choices.measure(values, grid, args, prepare)
        self.by_plan = {it: kernel for it, kernel in self.by_plan.items() if it == plan or it in before}
        return plan

    def predicted(self, values: Sequence[Any], grid: tuple[int, ...]) -> Made | str:
        """Makes what a launch of the form with the best prediction needs. A text says why it gets the stock kernel."""
        refused = why_not_launchable(self.spec, values, grid)
        if self.forecasts is None or (refused and self._instead(values) is None):
            return self.made(values, grid)
        capturing = self.host.capturing()
        found = self.forecasts.choose(values, grid, at_hand=capturing)
        while found is not None and found.plan is not None:
            if found.plan == STOCK and not self.forecasts.learned and not capturing:
                self.forecasts.learn(facts_of(self.stock))
            elif found.plan in (STOCK, *self.forecasts.made):
                break
            elif self._is_awaited(found.plan):
                found = self.forecasts.choose(values, grid, at_hand=True)
                break
            else:
                self._note(self.forecasts, found.plan)
            found = self.forecasts.choose(values, grid)  # with what is known of the compiled kernel
        if found is None:
            return self.made(values, grid)
        if found.plan == STOCK and self._has_stock_at_hand():
            return found.why
        made = self.made(values, grid) if found.plan in (None, STOCK) else self.made_by(found.plan, values, grid)
        if isinstance(made, str):
            return self.made(values, grid)
        return replace(made, why=found.why)

    def follow(
        self, stock: Any, make: Callable[[Plan, bool], Any], load: Callable[[Any], Any], has_stocks_bits: bool
    ) -> None:
        """Follows launches of stock Triton's kernel, none of which waited: nor shall the next ones, for other forms.

        stock: that kernel, loaded. make: compiles a form in the background, or, with True, takes it from the cache, or
        None. load: loads what that made. has_stocks_bits: whether this kernel rounds as stock Triton's; else no launch
        learns about it.
        """
        self.stock, self.make, self.load = stock, make, load
        if not has_stocks_bits:
            self.plan, self.left_out = None, "it rounds otherwise than stock Triton's kernel"
        facts, clock = recorded_facts(getattr(stock.metadata, KEY)), event_clock()
        if self.forecasts is not None and facts is not None:
            self.forecasts.learn(facts)
        # Events would break the overlap of launches that depend on each other.
        if self.choices is not None and clock is not None and not getattr(self.kernel.metadata, "launch_pdl", False):
            self.learner = Learner(clock, self.choices, self._is_apart, self._forget)

    def states(self) -> tuple[str, ...]:
        """What launches have learned and are learning, for people."""
        learned = self.choices.remarks() if self.choices is not None else ()
        return (*learned, *(self.learner.texts() if self.learner is not None else ()))

    def _learning(self, learner: Learner, values: Sequence[Any], grid: tuple[int, ...]) -> Made | str:
        """What a launch gets of a shape class that has not learned yet."""
        name, measured = learner.choices.class_of(values, grid), measurement()
        if measured is not None:
            twin = self._arm(self.plan, values, grid) if self.plan is not None else ""
            if not isinstance(twin, str) and learner.offer(measured, name, self.plan or STOCK):
                return twin
            return self._arm(learner.begins_with(name), values, grid)
        lesson = learner.lessons.get(name) or self._lesson(learner, name, values, grid)
        with lesson.lock:
            return self._next(learner, lesson, values, grid)

    def _next(self, learner: Learner, lesson: Lesson, values: Sequence[Any], grid: tuple[int, ...]) -> Made | str:
        """The same for a class that has begun to learn; its lock is held."""
        if lesson.ranking is not None:
            if not lesson.ranking.done and not lesson.ranking.lost:
                learning.awaited = lesson.ranking
                return self._arm(lesson.champion, values, grid)
            lesson.incomplete |= lesson.ranking.result is None and self.forecasts is not None
            forms, guessed = lesson.ranking.result or (((None, "specialised"),), True)
            known = [(plan or self.plan, words) for plan, words in forms]
            lesson.take([(plan, words) for plan, words in known if plan is not None], guessed)
        while lesson.challenger is None and lesson.waiting and not self.host.capturing():
            plan = lesson.waiting[0]
            if plan not in (STOCK, self.plan) and self._is_awaited(plan):
                break
            lesson.waiting.pop(0)
            made = self.by_plan.get(plan)
            if plan == self.plan or not isinstance(made, str):
                lesson.begin(plan)
            else:
                lesson.incomplete |= made.startswith(WorkerLost.__name__)
        champion = self._arm(lesson.champion, values, grid)
        if lesson.challenger is None or lesson.gives_up:
            if not lesson.waiting and not lesson.gives_up:
                learner.store(lesson)
            return champion
        challenger = self._arm(lesson.challenger, values, grid)
        if isinstance(champion, str) or isinstance(challenger, str):  # these arguments cannot have it
            return champion
        kind = None if lesson.guessed or self.forecasts is None else self.forecasts.size(values, grid)
        return Made(learner.arms(lesson, kind, (champion, challenger)), grid, (), self.kernel, why=str(lesson))

    def _lesson(self, learner: Learner, name: str, values: Sequence[Any], grid: tuple[int, ...]) -> Lesson:
        """A new shape class: predictions for its first launch say which forms it tries."""
        found = learner.begin(name)
        found.ranking = Task(lambda: None)
        if self.forecasts is not None:
            found.ranking = submit(partial(rank, self.forecasts, values, grid), self._end)
        else:
            found.ranking.run()
        return found

    def _arm(self, plan: Plan, values: Sequence[Any], grid: tuple[int, ...]) -> Made | str:
        """What a launch by a kernel that is made needs. A text says why it gets the stock kernel."""
        if plan == STOCK:
            return self._stock_made("the fastest so far", grid)
        return self.made(values, grid) if plan == self.plan else self.made_by(plan, values, grid)

    def _is_awaited(self, plan: Plan, is_known: bool = False) -> bool:
        """Whether another form is being made in the background: launches get what there is until then.

        is_known: whether it is known to be the fastest. Then a launch waits until it is read from the cache.
        """
        if self.make is None or plan in self.by_plan:
            return False
        task = self.tasks.get(plan)
        if task is None or task.lost:
            task = Task(partial(self.make, plan, True))
            if is_tuning() or is_known:
                task.run()
            if task.result is None:
                if is_tuning():
                    return True
                task = submit(partial(self.make, plan, False), self._end)
            self.tasks[plan] = task
        if not task.done:
            learning.awaited = task
            return True
        made = "it could not be made" if task.result is None else task.result
        self.by_plan[plan] = made if isinstance(made, str) else self.load(made)
        return False

    def _end(self) -> None:
        """A form was made: launches choose anew. Called in the background."""
        self._forget()

    def _forget(self) -> None:
        """Launches choose anew, also those that are choosing now."""
        self.known, self.alike = {}, {}

    def _is_apart(self) -> bool:
        """Whether a launch says nothing about later ones: it is captured, or a tuner's."""
        return self.host.capturing() or is_tuning()

    def _note(self, forecasts: Forecasts, plan: Plan) -> None:
        """Compiles another form of the kernel, and tells the forecasts its complete Plan and what it spills."""
        kernel = self._compiled(plan)
        if isinstance(kernel, str):
            forecasts.note(plan, kernel)
        else:
            known = getattr(kernel.metadata, KEY)
            forecasts.note(plan, plan_of(known) or known["reason"], spilled_bytes(known))

    def _compiled(self, plan: Plan) -> Any:
        """The kernel as a Plan has it, compiled once; a text if that is impossible."""
        if plan not in self.by_plan:
            self.by_plan[plan] = self.compile_plan(plan)
        return self.by_plan[plan]

    def made_by(self, plan: Plan, values: Sequence[Any], grid: tuple[int, ...]) -> Made | str:
        """Makes what a launch by a Plan needs. A text says why it gets the stock kernel, also if the Plan fails."""
        if plan.form == "stock":
            return "measured to be the fastest"
        kernel = self._compiled(plan)
        if isinstance(kernel, str):
            return self.predicted(values, grid)
        if isinstance(kernel.run, Launcher):
            made = kernel.run.made(values, grid)
            self._read_also(kernel.run.read, kernel.run.addresses)
            return made
        compiled = getattr(kernel, "compiled", kernel)
        return _anywhere(Made(straight(kernel.run), grid, (kernel.function, kernel.packed_metadata), compiled))

    def _read_also(self, arguments: frozenset[int], addresses: frozenset[int]) -> None:
        """Another form of the kernel depends on these arguments: the key may grow. addresses: as of a `LaunchSpec`."""
        exact = (arguments - addresses) | (self.read - self.addresses)
        read, addresses = self.read | arguments, (self.addresses | addresses) - exact
        if (read, addresses) == (self.read, self.addresses):
            return
        self._read(read, addresses)
        self.known.clear()
        self.alike.clear()

    def _has_stock_at_hand(self) -> bool:
        """Whether the stock kernel can be used: during a capture only if it is compiled already."""
        return "stock" in vars(self) or not self.host.capturing()

    def made(self, values: Sequence[Any], grid: tuple[int, ...]) -> Made | str:
        """Makes what such a launch needs, of this kernel or of the one that it gets instead.

        A text says why it gets the stock kernel.
        """
        if self.left_out:
            return self.left_out
        instead = self._instead(values)
        if instead is not None:
            if self._is_awaited(instead):
                return "the form that these arguments can have is compiled in the background"
            return self.made_by(instead, values, grid)
        refused = why_not_launchable(self.spec, values, grid) or self._why_not_counted()
        if refused:
            return refused
        own, grouped, sizes = grid, self.spec.grouped, tuple[int, ...]()
        if grouped is not None:
            own, sizes = grouped.ctas(grid), (grouped.size(grid),)
        if self.spec.axes:
            own, sizes = (self.spec.programs(own, self.processors), 1, 1), (*sizes, *own[: self.spec.axes])
        handles, inner = (self.kernel.function, self.kernel.packed_metadata), self._with_scratch(self.inner)
        if self.spec.counter:
            inner = with_counter(inner, self.counters or process_counters())
        if self.spec.shared is not None:
            own, size = self.spec.shared.programs(grid), self.spec.shared.workspace_bytes(grid)
            inner = with_workspace(inner, self.workspaces or process_workspaces(), size, prod(grid))

        def moved(values: Sequence[Any]) -> Made:
            found = (made_descriptor(spec, values) for spec in self.spec.descriptors)
            added = [it for number, descriptor in enumerate(found) for it in self.encode(number, descriptor)]
            return Made(inner, own, handles, self.kernel, (*added, *sizes), self.passed, moved=moved)

        return moved(values)

    def _why_not_counted(self) -> str:
        """Why launches of this kernel cannot share memory that they reset; empty if they can, or need none."""
        if not getattr(self.kernel.metadata, "launch_pdl", False):
            return ""
        if self.spec.counter:
            return "launch_pdl=True: the next launch may begin before this one has reset its counter of tiles"
        if self.spec.shared is not None:
            return "launch_pdl=True: the next launch may begin before this one has read its partial sums"
        return ""

    @cached_property
    def stock(self) -> Any:
        """The stock kernel."""
        return self.compile_stock()

    def _stock_made(self, reason: str, grid: tuple[int, ...]) -> Made:
        """What a launch of the stock kernel needs."""
        if "stock" not in vars(self):
            _log.info("%s: the stock kernel is launched: %s", self.kernel.name, reason)
        stock = self.stock
        inner = self._with_scratch(straight(stock.run))
        return _anywhere(Made(inner, grid, (stock.function, stock.packed_metadata), stock))

    def _with_scratch(self, inner: Callable[..., None]) -> Callable[..., None]:
        """The same launcher. If the kernel needs scratch memory and the user set no allocator, ours is Triton's."""
        allocate = self.host.allocate
        return with_scratch(inner, allocate) if self.scratch and allocate is not None else inner


def states_of(kernel: Any) -> tuple[str, ...]:
    """What launches of a compiled kernel have learned and are learning, for people."""
    run = getattr(kernel, "_run", None)
    if isinstance(run, Launcher):
        return run.states()
    if isinstance(run, StockFirst):
        return (run.state,) if run.state else ()
    choices = getattr(kernel, "tawa_choices", None)
    return choices.remarks() if choices is not None else ()


def taken_over(kernel: Any) -> Any:
    """The kernel whose launcher has taken over the launches of stock Triton's, or the kernel itself."""
    run = getattr(kernel, "_run", None)
    return run.kernel if isinstance(run, Launcher) else kernel


def _anywhere(made: Made) -> Made:
    """The same; it does not depend on addresses."""
    return replace(made, moved=lambda values: made)
