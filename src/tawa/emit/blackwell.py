"""tcgen05: dots that one thread issues into tensor memory, and the commits that announce their end.

ttng.tc_gen5_mma %a, %b, %d, %use, %true, %s[%true]      tcgen05_mma(a, b, d, use_acc=use, mbarriers=[s])
ttng.tc_gen5_mma_scaled %a, %b, %d, %x, %y, %use, %true  tcgen05_mma_scaled(a, b, d, x, y, "e4m3", "e4m3", use_acc=use)
ttng.tmem_copy %s, %x                                    tcgen05_copy(s, x)
ttng.tc_gen5_commit %full                                tcgen05_commit(full)
"""

from __future__ import annotations

from tawa.dialects.declare.declaration import by_name
from tawa.dialects.tcgen05 import TCGen5CommitOp, TCGen5MMAOp, TCGen5MMAScaledOp, TMEMCopyOp, dot_of
from tawa.emit.body import Body, Writer, statement
from tawa.emit.errors import cannot_say
from tawa.emit.extras import SCALED
from tawa.ir import Operation
from tawa.ir.attributes import read_int
from tawa.ir.locations import source_of

_KNOWN = {"is_async", "operandSegmentSizes", "resultSegmentSizes"}
_KINDS = {0: "e4m3", 1: "e5m2", 4: "e2m1"}


def _dot(body: Body, op: Operation) -> str:
    view = dot_of(op)
    assert view is not None
    kinds = {name: op.properties[name] for name in ("a_type", "b_type") if view.scales}
    if extra := sorted(op.properties.keys() - _KNOWN - kinds.keys()):
        raise cannot_say(f"{extra[0]} of a dot", source_of(body.file.module, op))
    if view.waits:
        raise cannot_say("a dot in tensor memory that waits for itself", source_of(body.file.module, op))
    if view.scales:
        body.file.extras.use(SCALED)
    parts = [body.of(it) for it in (view.a, view.b, view.d, *view.scales)]
    for name, kind in kinds.items():
        if read_int(kind) not in _KINDS:
            raise cannot_say(f"{name} = {kind} of a dot", source_of(body.file.module, op))
        parts.append(f'"{_KINDS[read_int(kind)]}"')
    for word, value in (("use_acc", view.use_d), ("pred", view.predicate)):
        if (text := body.of(value)) != "True":
            parts.append(f"{word}={text}")
    barriers, predicates = ([body.of(commit[at]) for commit in view.commits] for at in (0, 1))
    if barriers:
        parts.append(f"mbarriers=[{', '.join(barriers)}]")
    if any(it != "True" for it in predicates):
        parts.append(f"mbarrier_preds=[{', '.join(predicates)}]")
    return f"{'tcgen05_mma_scaled' if view.scales else 'tcgen05_mma'}({', '.join(parts)})"


def _copy(body: Body, op: Operation) -> str:
    view = TMEMCopyOp(op)
    if view.barriers:
        raise cannot_say("a copy to tensor memory that commits by itself", source_of(body.file.module, op))
    body.file.extras.use(SCALED)
    return f"tcgen05_copy({body.of(view.source)}, {body.of(view.target)})"


def _commit(body: Body, op: Operation) -> str:
    view = TCGen5CommitOp(op)
    if view.descriptors:
        raise cannot_say("a commit to other CTAs", source_of(body.file.module, op))
    predicate = body.of(view.predicate) if view.predicate is not None else "True"
    if predicate == "True":
        return f"tcgen05_commit({body.of(view.barrier)})"
    body.file.extras.needs = max(body.file.extras.needs, ((3, 7), "commits under a condition"))
    return f"tcgen05_commit({body.of(view.barrier)}, pred={predicate})"


WRITERS: dict[str, Writer] = by_name(
    {
        TCGen5MMAOp: statement(_dot),
        TCGen5MMAScaledOp: statement(_dot),
        TMEMCopyOp: statement(_copy),
        TCGen5CommitOp: statement(_commit),
    }
)
