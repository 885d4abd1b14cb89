"""What a launch of a compiled kernel gets: the specialised kernel, stock Triton's, or what the choice depends on.

    answer_for(kernel)                       depends: M, N, K > 0 and the model of time predicts it to be the fastest
    answer_for(kernel, {"K": 64}, (4, 4))    declined: 6.0 us predicted for the specialised kernel, 5.1 us …

If everything that the choice depends on is known, the launcher itself decides (`tawa.bridge.launch.launcher`), and
compiles the form that the launch gets. Otherwise the answer is a condition, simplified for the argument types that the
kernel was compiled for. 32-bit arguments are assumed to be at most 2147418112, the limit on the sizes of a
tensor that TMA reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from tawa.analysis.tma.boxes import OPEN, STRIDE_LIMIT
from tawa.analysis.tma.host_sizes import ALIGNED_FOR_TMA, STRIDES_OF_TMA
from tawa.analysis.tma.launch_choice import clauses_of, grid_domain, grid_values
from tawa.bridge.launch import added_arguments
from tawa.bridge.launch.added_arguments import known_without, launch_spec
from tawa.bridge.launch.argument_paths import BASE, SHAPE, STRIDES, ArgumentPath, argument_paths, plain_value, values_at
from tawa.bridge.launch.forecasts import Forecasts, forecasts_of
from tawa.bridge.report import record
from tawa.errors import PlanError
from tawa.machine.machines import SM_90
from tawa.symbolic.host.conditions import NEVER, Clause, simplified
from tawa.symbolic.host.expr import Apply, Argument, Condition, named
from tawa.symbolic.host.launch_spec import LaunchSpec
from tawa.symbolic.host.ranges import ANY, Domain
from tawa.symbolic.host.text import clauses_text, value_text
from tawa.symbolic.range import Range

Decision = Literal["specialised", "declined", "depends"]

_MEASURED = "the first launch measures it to be faster"
_PREDICTED = "the model of time predicts it to be the fastest"
_LEARNED = "real launches measure it to be the fastest"
_MEASURE = "tawa tune measures it; only_if_faster=False specialises it against the prediction"
_CHANGES = {
    STRIDES_OF_TMA: "pad the rows of the tensor",
    ALIGNED_FOR_TMA: "let the tensor begin at a multiple of 16 bytes",
}
"""What users can change so that a condition holds, by its reason."""
_POINTER_BITS = 63


@dataclass(frozen=True, slots=True)
class Answer:
    """What launches get.

    decision: for all launches, or for the one whose arguments are known. It is "specialised" also if the condition only
    requires positive sizes and strides. condition: what the decision depends on; empty if on nothing. found: the values
    of the condition's parts for the known arguments. reason, cure: why the launch gets the stock kernel. known: the
    given arguments, and the number of programs in the grid. compiled: the kernel of the one launch; None if it is the
    one asked about, or stock Triton's. forecasts: what is predicted, with what is known of every kernel that was
    compiled for the answer; None if all launches get the same. unmarked: the arguments that a condition requires to be
    a multiple of a number, although the types that the kernel was compiled for do not say so.
    """

    decision: Decision
    condition: str = ""
    found: str = ""
    reason: str = ""
    cure: str = ""
    known: Mapping[str, int] | None = None
    compiled: Any = None
    forecasts: Forecasts | None = None
    unmarked: tuple[str, ...] = ()


def answer_for(
    compiled: Any,
    arguments: Mapping[str, Any] | None = None,
    grid: Sequence[int] | None = None,
    processors: int | None = None,
) -> Answer:
    """What launches get. Raises PlanError for an unknown argument, or for a value that does not fit its type.

    compiled: Triton's `CompiledKernel`. arguments: values by name; tensors have a ``data_ptr()``. Constants, and
    arguments that the decision does not depend on, are optional. grid: one to three sizes. processors: SMs; by default
    those of the GPU in use.
    """
    known = getattr(compiled.metadata, record.KEY, None) or {}
    processors = processors or _processors()
    forecasts = forecasts_of(compiled, processors)
    if not known.get("applied") and forecasts is None:
        return Answer("declined")
    return replace(_answer(compiled, forecasts, arguments, grid, processors), forecasts=forecasts)


def _answer(
    compiled: Any, forecasts: Forecasts | None, arguments: Mapping[str, Any] | None, grid: Sequence[int] | None,
    processors: int,
) -> Answer:  # fmt: skip
    known = getattr(compiled.metadata, record.KEY, None) or {}
    spec = launch_spec(compiled).without(known_without(compiled))
    if spec == LaunchSpec() and not arguments and grid is None:
        found = Answer("specialised")
        if forecasts is not None:
            found = _with_forecast(found, forecasts, _learns(compiled))
    else:
        question = Question(compiled, spec, forecasts, processors)
        found = replace(question.answer(arguments or {}, grid), unmarked=question.unmarked)
    return _with_measurement(found) if (known.get("launch") or {}).get("measure") else found


def _with_forecast(answer: Answer, forecasts: Forecasts, learns: bool) -> Answer:
    """The answer for launches of which not enough is known to predict them. learns: whether launches measure it."""
    if answer.decision == "declined" or not forecasts.about["stock"]:
        return answer
    decides = _LEARNED if learns else _PREDICTED
    condition = f"{answer.condition} and {decides}" if answer.condition else decides
    return replace(answer, decision="depends", condition=condition)


def _with_measurement(answer: Answer) -> Answer:
    if answer.decision == "declined":
        return answer
    condition = f"{answer.condition} and {_MEASURED}" if answer.condition else _MEASURED
    return Answer("depends", condition, answer.found, known=answer.known)


class Question:
    """One compiled kernel, and what a launch of it depends on. of_types: the ranges of arguments by their types."""

    def __init__(
        self, compiled: Any, spec: LaunchSpec, forecasts: Forecasts | None = None, processors: int = SM_90.processors
    ) -> None:
        self.compiled, self.spec, self.forecasts, self.processors = compiled, spec, forecasts, processors
        self.source = compiled.src
        self.types: dict[str, Any] = dict(self.source.signature)
        self.paths = argument_paths(tuple(self.types.values()))
        self.names = {path: index for index, path in enumerate(self.paths)}
        self.count = len(self.paths)
        self.of_types = self._types()
        self.domain: Domain = {**self.of_types, **grid_domain(self.count)}
        self.clauses = tuple(replace(it, value=named(it.value, self._name)) for it in clauses_of(spec, self.count))

    def _name(self, index: int) -> str:
        """The name of an argument in the kernel's source."""
        if index >= self.count:
            return ""
        position, *inner = self.paths[index]
        steps = (f".{at}" if isinstance(at, str) else f"[{at}]" for at in inner if at != BASE)
        return list(self.types)[int(position)] + "".join(steps)

    def _types(self) -> dict[int, Range]:
        marked = getattr(self.source, "attrs", None) or {}
        found: dict[int, Range] = {}
        for path, index in self.names.items():
            field = next((it for it in path if isinstance(it, str)), None)
            if field is not None:
                found[index] = _OF_DESCRIPTORS[field]
                continue
            kind: Any = tuple(self.types.values())
            for at in path:
                kind = kind[at]
            divisible = any("tt.divisibility" in mark for mark in marked.get(tuple(path), ()))
            found[index] = _range_of(str(kind), 16 if divisible else 1)
        return found

    def answer(self, arguments: Mapping[str, Any], grid: Sequence[int] | None) -> Answer:
        """As `answer_for`."""
        known = self._known(arguments)
        if grid is not None:
            known |= {self.count + at: number for at, number in enumerate(grid_values(grid))}
        if known and self._needed <= known.keys() and (grid is not None or self.forecasts is None):
            return self._of_one_launch(known, grid or (1,))
        found = self._of_some_launches(known)
        return _with_forecast(found, self.forecasts, _learns(self.compiled)) if self.forecasts is not None else found

    @property
    def unmarked(self) -> tuple[str, ...]:
        """The arguments of `Answer.unmarked`, in the kernel's order.

        A launch that satisfies the condition marks them, unless the kernel forbids it, and so gets another kernel.
        """
        fixed = {
            it.name
            for it in getattr(self.source.fn, "params", ())
            if it.do_not_specialize or getattr(it, "do_not_specialize_on_alignment", False)
        }
        aligned = (it.value for it in simplified(self.clauses, self.domain) if it.multiple > 1)
        found = {it.index for it in aligned if isinstance(it, Argument) and self.of_types[it.index].multiple == 1}
        return tuple(name for index in sorted(found) if (name := self._name(index)) in self.types and name not in fixed)

    @property
    def _needed(self) -> frozenset[int]:
        """The arguments that the launcher's decision depends on."""
        needed = frozenset[int]().union(*(it.value.arguments for it in self.clauses))
        return needed if self.forecasts is None else needed | self.forecasts.arguments

    def _of_some_launches(self, known: dict[int, int]) -> Answer:
        """The answer if what is known does not suffice for the launcher."""
        general = simplified(self.clauses, self.domain)
        condition = clauses_text(general, self.domain)
        if NEVER in general:
            return Answer("declined", reason="no arguments satisfy the conditions of its TMA descriptors")
        if not known:
            return Answer(self._decided(general), condition)
        shown, found = self._shown(known), self._found(general, known)
        narrow = {**self.domain, **{index: Range(value, value) for index, value in known.items()}}
        left = simplified(self.clauses, narrow)
        decision = self._decided(left)
        if decision != "declined":
            return Answer(decision, clauses_text(left, narrow), known=shown)
        cure = self._cure(None, general, known)
        return Answer(decision, condition, found, self._failure(general, known), cure, shown)

    def _of_one_launch(self, known: Mapping[int, int], grid: Sequence[int]) -> Answer:
        """The launcher's decision."""
        from tawa.bridge.driver.attach import attached  # imports the launcher

        values = [known.get(index, 0) for index in range(self.count)]
        launcher = added_arguments.explaining_launcher(self.compiled, self.processors, attached, self.forecasts)
        general, shown = simplified(self.clauses, self.domain), self._shown(known)
        condition, found = clauses_text(general, self.domain), self._found(general, known)
        choices = launcher.choices
        if _learns(self.compiled) and choices is not None and choices.lookup(values, grid) is None:
            return Answer("depends", f"{condition} and {_LEARNED}" if condition else _LEARNED, found, known=shown)
        made = launcher.foresee(values, tuple(grid))
        broken = self.spec.broken(values)
        if isinstance(made, str) and (broken is not None or self.forecasts is None):
            reason = broken.reason if broken is not None else made  # `condition` has the condition itself
            cure = self._cure(broken, general, known) if broken is not None else ""
            return Answer("declined", condition, found, reason, cure, shown)
        if isinstance(made, str) or not _is_applied(made.compiled):
            return Answer("declined", _PREDICTED, "", made if isinstance(made, str) else made.why, _MEASURE, shown)
        if made.why and self.forecasts is not None and self.forecasts.about["stock"]:
            condition = _PREDICTED
        if made.why and self.forecasts is not None:
            plan = record.plan_of(getattr(made.compiled.metadata, record.KEY))
            assert plan is not None  # it is specialised
            self.forecasts.learn_of_stock(lambda: added_arguments.stock_facts(self.compiled, attached))
            found = self.forecasts.restated(values, grid, plan)
        other = made.compiled if made.compiled is not self.compiled else None
        return Answer("specialised", condition, found, known=shown, compiled=other)

    @staticmethod
    def _decided(clauses: Sequence[Clause]) -> Decision:
        if NEVER in clauses:
            return "declined"
        return "specialised" if all(map(_is_plain, clauses)) else "depends"

    def _known(self, arguments: Mapping[str, Any]) -> dict[int, int]:
        """The given values of the kernel's own arguments, by index."""
        unknown = [name for name in arguments if name not in self.types]
        if unknown:
            raise PlanError(f"the kernel has no parameter {unknown[0]!r}; it has {', '.join(self.types)}")
        found: dict[int, int] = {}
        for position, name in enumerate(self.types):
            if name not in arguments:
                continue
            value = plain_value(arguments[name])
            if str(self.types[name]).startswith("tensordesc"):
                found |= self._of_descriptor(position, value)
                continue
            self._refuse_other(position, name, value)
            index = self.names.get((position,))
            if index is None or not isinstance(value, int):
                continue  # a constant or a float: the decision does not depend on it
            it = self.domain[index]
            if it.and_also(Range(value, value)).is_empty or (it.multiple > 1 and value % it.multiple):
                mark = f":{it.multiple}" if it.multiple > 1 else ""
                raise PlanError(
                    f"{name}={value} is no {self.types[name]}{mark}; "
                    "cure: leave its type out of the signature; the value determines it"
                )
            found[index] = value
        return found

    def _of_descriptor(self, position: int, value: object) -> dict[int, int]:
        """The address, the sizes and the strides of a descriptor; empty for what only describes one."""
        paths = [path for path in self.names if path[0] == position]
        if not hasattr(value, STRIDES) or not hasattr(getattr(value, BASE, None), "data_ptr"):
            return {}
        arguments = [value] * (position + 1)
        return dict(zip((self.names[path] for path in paths), values_at(paths, arguments), strict=True))

    def _refuse_other(self, position: int, name: str, value: object) -> None:
        """Raises PlanError for a number other than the compiled constant, and for a fraction given as an integer."""
        constants: Mapping[Any, Any] = getattr(self.source, "constants", None) or {}
        constant = constants.get((position,), value)
        if isinstance(value, int | float) and isinstance(constant, int | float) and value != constant:
            raise PlanError(
                f"{name}={value}: the kernel was compiled for {name}={constant}; "
                f"cure: {name}={value} in the signature or the constants"
            )
        if isinstance(value, float) and re.fullmatch(r"[iu]\d+", str(self.types[name])):
            raise PlanError(f"{name}={value} is no {self.types[name]}; cure: a whole number")

    def _shown(self, known: Mapping[int, int]) -> dict[str, int]:
        """The known numbers by name; addresses are left out."""
        numbers = [it for it in known if it < self.count and not self._is_address(self.paths[it])]
        programs = {"programs": known[self.count]} if self.count in known else {}
        return {self._name(it): known[it] for it in sorted(numbers)} | programs

    def _is_address(self, path: ArgumentPath) -> bool:
        return path[-1] == BASE or str(list(self.types.values())[int(path[0])]).startswith("*")

    def _found(self, clauses: Sequence[Clause], known: Mapping[int, int]) -> str:
        """The values of the condition's parts: of the first that does not hold, else of all that are computed."""
        told = self._told(clauses, known)
        shown = self._failing(clauses, known)[:1] or [it for it in told if isinstance(it.value, Apply)]
        values = self._values(known)
        return ", ".join(f"{value_text(it.value, self.domain)} = {_evaluated(it, values)}" for it in shown)

    def _values(self, known: Mapping[int, int]) -> list[int]:
        """The values of the kernel's arguments and of the grid's; 0 if unknown."""
        return [known.get(index, 0) for index in range(len(self.paths) + len(grid_domain(self.count)))]

    @staticmethod
    def _told(clauses: Sequence[Clause], known: Mapping[int, int]) -> list[Clause]:
        """The clauses whose arguments are all known."""
        return [it for it in clauses if it.value.arguments <= known.keys()]

    def _failing(self, clauses: Sequence[Clause], known: Mapping[int, int]) -> list[Clause]:
        """The clauses that are known not to hold."""
        values = self._values(known)
        return [it for it in self._told(clauses, known) if not it.holds(values)]

    def _cure(self, broken: Condition | None, clauses: Sequence[Clause], known: Mapping[int, int]) -> str:
        """What the user can change so that a launch satisfies the conditions. broken: the first that it violates."""
        text = clauses_text(self._failing(clauses, known)[:1] or clauses, self.domain)
        change = _CHANGES.get(broken.reason) if broken is not None else None
        return f"{change}, so that {text}" if change else f"arguments for which {text}"

    def _failure(self, clauses: Sequence[Clause], known: Mapping[int, int]) -> str:
        """Why a launch is declined whose arguments are not all known, so that the launcher cannot be asked."""
        failing = self._failing(clauses, known)
        return f"not so that {clauses_text(failing[:1] or clauses, self.domain)}"


_OF_DESCRIPTORS = {
    BASE: Range(16, 1 << _POINTER_BITS, 16),
    SHAPE: Range(1, OPEN),
    STRIDES: Range(0, STRIDE_LIMIT),
}
"""The fields of a descriptor: what TMA allows."""


def _is_plain(clause: Clause) -> bool:
    """Whether the clause only requires an argument to be positive, or not negative. Launches of any size satisfy it."""
    only_least = clause.most is None and clause.multiple == 1 and not clause.nonzero
    return isinstance(clause.value, Argument) and clause.least in (0, 1) and only_least


def _evaluated(clause: Clause, values: Sequence[int]) -> int | str:
    try:
        return clause.value.evaluate(values)
    except ZeroDivisionError:
        return "nothing: a divisor is zero"


def _range_of(kind: str, multiple: int) -> Range:
    if kind.startswith("*"):
        return Range(0, 1 << _POINTER_BITS, multiple)
    if kind[:1] in "iu" and kind[1:].isdigit():
        bits = int(kind[1:])
        if kind[0] == "u" or bits == 1:
            return Range(0, (1 << bits) - 1, multiple)
        most = OPEN if bits == OPEN.bit_length() + 1 else (1 << (bits - 1)) - 1
        return Range(-(1 << (bits - 1)), most, multiple)
    return ANY


def _learns(compiled: Any) -> bool:
    """Whether real launches measure which kernel they get."""
    known = getattr(compiled.metadata, record.KEY, None) or {}
    return bool((known.get("launch") or {}).get("learns"))


def _is_applied(compiled: Any) -> bool:
    return bool((getattr(compiled.metadata, record.KEY, None) or {}).get("applied"))


def _processors() -> int:
    """SMs of the GPU in use, or of an H100."""
    try:
        return added_arguments.multiprocessors()
    except Exception:  # no driver, GPU or PyTorch: an explanation needs none of them
        return SM_90.processors
