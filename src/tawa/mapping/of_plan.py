"""The mapping that says what a complete Plan says, to be printed, edited and kept."""

from __future__ import annotations

from collections.abc import Iterable

from tawa.analysis.names import Name
from tawa.mapping.mapping import ALL, Mapping
from tawa.mapping.program import Access, Loop, Program, short
from tawa.mapping.sections import (
    GroupWords,
    KernelWords,
    LoopWords,
    OperandWords,
    PartitionWords,
    RingWords,
    StoreWords,
    Words,
    said,
)
from tawa.mapping.tasks import tasks_of
from tawa.mapping.toml_text import key, written
from tawa.mapping.words import ELEMENTS
from tawa.plan.decide.wanted import carries, step_names
from tawa.plan.fields import OperandPlan, Path
from tawa.plan.plan import Plan
from tawa.plan.reasons import Decision, operand_field, size_of

_TMA: dict[Path, str] = {
    "host_descriptor": "tma", "kernel_descriptor": "tma", "promoted": "tma", "promoted_in_kernel": "tma in kernel",
}  # fmt: skip
_TYPES = {ir: name for name, ir in ELEMENTS.items() if ir}


def mapping_of(plan: Plan, program: Program) -> Mapping:
    """The mapping that resolves to a Plan. program: the kernel that the Plan is of."""
    if plan.form == "stock":
        return Mapping(KernelWords(name=program.name, specialised=False))
    return Mapping(
        _kernel(plan, program),
        GroupWords(**said(GroupWords, plan)),
        dict(_operands(plan, program)),
        dict(_stores(plan, program)),
        dict(_loops(plan, program)),
        {it.name or ALL: RingWords(**said(RingWords, it)) for it in plan.rings if it.depth is not None},
        {
            it.name or it.role: PartitionWords(
                warps=it.num_warps or None,
                registers=it.registers,
                role=None if _is_usual(it.name, it.role) else it.role,
            )
            for it in plan.partitions
        },
    )


def mapping_text(plan: Plan, program: Program, decisions: Iterable[Decision] = ()) -> str:
    """The TOML of a Plan, with what each task reads and writes, and why each part was decided."""
    mapping = mapping_of(plan, program)
    data = mapping.toml_data()
    reasons = {it.field: it.reason for it in decisions if it.reason and it.by not in ("user", "mapping")}
    notes = dict(_notes(plan, program, reasons))
    head = [f"{program.name}({program.signature})", *([short(program.line)] if program.line else [])]
    head += ["every sum keeps its order: the same bits as without a mapping" if mapping.keeps_order
             else "sums have another order: results are rounded otherwise, within the accuracy bound"]  # fmt: skip
    head += [str(task) for task in tasks_of(plan, program)]
    return written(data, notes, head)


def _notes(plan: Plan, program: Program, reasons: dict[str, str]) -> Iterable[tuple[str, list[str]]]:
    for it in plan.operands:
        access = program.load(it.key)
        if access is not None:
            why = reasons.get(operand_field(it.key), "")
            yield f"operands.{key(access.text)}", [": ".join(filter(None, (short(access.line), why)))]
    for it in plan.loops:
        loop = program.loop(it.loop)
        if loop is not None:
            why = reasons.get(f"loops.{it.loop}", "")
            yield f"loops.{key(loop.text)}", [": ".join(filter(None, (short(loop.line), why)))]
    for ring in plan.rings:
        size = size_of(ring) if ring.has_tiles else "a number"
        names = [program_name(program, it) for it in plan.operands if it.ring == ring.name]
        why = reasons.get(f"rings.{ring.name}", "")
        yield f"rings.{key(ring.name)}", [": ".join(filter(None, (", ".join([*names, size]), why)))]
    for part in plan.partitions:
        if why := reasons.get(f"partitions.{part.name}", ""):
            yield f"partitions.{key(part.name)}", [why]


def program_name(program: Program, operand: OperandPlan) -> str:
    """The name of an operand in a mapping."""
    access = program.load(operand.key)
    return access.text if access is not None else str(operand.argument)


def _kernel(plan: Plan, program: Program) -> Words:
    launches = said(KernelWords, plan.launches) if plan.launches is not None else {}
    form: dict[str, bool] = {}
    if plan.form is not None:
        form = {"persistent": plan.form == "persistent"} if plan.partitioned else {"partitioned": False}
    return KernelWords(name=program.name, **form, **said(KernelWords, plan), **launches)


def _operands(plan: Plan, program: Program) -> Iterable[tuple[str, Words]]:
    memory, _ = _memory(plan, program)
    for it in plan.operands:
        access = program.load(it.key)
        if it.argument is None or access is not None:
            own = {**said(OperandWords, it), "path": _path(it.path), "memory": memory.get(it.key)}
            yield _text(access), OperandWords(**own)
    entries = {it.key for it in plan.operands}
    for name, word in memory.items():  # also of operands that no ring carries, which have no entry
        access = program.load(name)
        if access is not None and name not in entries:
            yield access.text, OperandWords(memory=word)


def _memory(plan: Plan, program: Program) -> tuple[dict[Name, str], set[int]]:
    """Where left operands stay that are loaded outside of their loop, and the loops about which that says it all."""
    said: dict[Name, set[str]] = {}
    outside: dict[int, list[tuple[int, Name]]] = {}
    for entry in plan.loops:
        loop = program.loop(entry.loop)
        if loop is None or entry.kept is None:
            continue
        named = [(at, name) for at, name in enumerate(loop.left) if name is not None and name[1] != loop.number]
        outside[loop.number] = named
        for at, name in named:
            said.setdefault(name, set()).add("registers" if at in entry.kept else "shared")
    told = {
        number
        for number, named in outside.items()
        if named
        and set(plan.loop(number).kept or ()) <= {at for at, _ in named}
        and all(len(said[name]) == 1 for _, name in named)
    }
    return {name: next(iter(said[name])) for number in sorted(told) for _, name in outside[number]}, told


def _path(path: Path | None) -> str | None:
    return None if path is None else _TMA.get(path, path)


def _stores(plan: Plan, program: Program) -> Iterable[tuple[str, Words]]:
    for it in plan.stores:
        access = next((other for other in program.stores if other.key == it.key), None)
        if it.argument is None or access is not None:
            yield _text(access), StoreWords(**{**said(StoreWords, it), "path": _path(it.path)})


def _loops(plan: Plan, program: Program) -> Iterable[tuple[str, Words]]:
    _, told = _memory(plan, program)
    for it in plan.loops:
        loop = program.loop(it.loop)
        if it.loop is not None and loop is None:
            continue
        stages, carry, steps = it.stages, None, None
        if it.schedule is not None:
            stages = it.schedule.stages
            pairs = sorted(carries(it.schedule.carried))
            plain = len(dict(pairs)) == len(pairs) and all(type in _TYPES for _, type in pairs)
            carry = tuple((name, _TYPES[type]) for name, type in pairs) if plain and pairs else None
            names = step_names([op.label for op in it.schedule.ops])
            steps = tuple(f"{it.schedule.ops[at].stage}: {names[at]}" for at in it.schedule.sequence)
        kept = None if it.loop in told else it.kept
        own = {**said(LoopWords, it), "stages": stages, "carry": carry, "steps": steps, "kept": kept}
        yield _text(loop), LoopWords(**own)


def _is_usual(name: str, role: str) -> bool:
    return not name or name == role or (role in ("consumer", "correction") and name.removeprefix(role).isdecimal())


def _text(it: Access | Loop | None) -> str:
    return it.text if it is not None else ALL
