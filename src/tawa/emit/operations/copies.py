"""cp.async, and TMA reductions into global memory."""

from __future__ import annotations

from tawa.dialects import ttg, ttng
from tawa.dialects.declare.declaration import by_name, op_names
from tawa.emit.body import Body, Writer, statement
from tawa.emit.errors import cannot_say
from tawa.emit.extras import ASYNC_COPY
from tawa.emit.tiles import pointer_options
from tawa.emit.values.expressions import integers
from tawa.ir import Operation
from tawa.ir.locations import source_of

KINDS = {1: "add", 2: "min", 3: "max", 6: "and", 7: "or", 8: "xor"}
"""Reductions of TMA by their numbers; Gluon has no increments and decrements."""
TOKENS = op_names(ttg.AsyncCommitGroupOp, ttg.AsyncWaitOp)
"""Operations that may take the token of a copy: Gluon has none, and they are in the order of the program."""


def _copy(body: Body, op: Operation) -> str:
    pointers, buffer, *rest = op.operands
    segments = integers(op.properties["operandSegmentSizes"])
    if segments[3]:
        raise cannot_say("other values than zero in cp.async", source_of(body.file.module, op))
    _check_tokens(body, op)
    more = f", mask={body.of(rest[0])}" if segments[2] else ""
    if op.properties.get("isVolatile", "false") == "true":
        more += ", volatile=True"
    body.file.extras.use(ASYNC_COPY)
    return f"async_load({body.of(buffer)}, {body.of(pointers)}{more}{pointer_options(op)})"


def _commit(body: Body, op: Operation) -> str:
    _check_tokens(body, op)
    body.file.extras.use(ASYNC_COPY)
    return "async_copy.commit_group()"


def _wait(body: Body, op: Operation) -> str:
    _check_tokens(body, op)
    body.file.extras.use(ASYNC_COPY)
    return f"async_copy.wait_group({integers(op.properties['num'])[0]})"


def _arrive(body: Body, op: Operation) -> str:
    body.file.extras.use(ASYNC_COPY)
    more = ", increment_count=False" if "noIncrement" in op.properties else ""
    return f"async_copy.mbarrier_arrive({body.of(op.operands[0])}{more})"


def _check_tokens(body: Body, op: Operation) -> None:
    if any(use.op.name not in TOKENS for result in op.results for use in result.uses):
        raise cannot_say("a token of cp.async that is handed on", source_of(body.file.module, op))


def _combine(body: Body, op: Operation) -> str:
    """A TMA reduction into global memory."""
    kind = integers(op.properties["kind"])[0]
    if kind not in KINDS:
        raise cannot_say(f"the kind {kind} of a TMA reduction", source_of(body.file.module, op))
    body.file.extras.needs = ((3, 8), "TMA reductions")
    desc, *coordinates, source = op.operands
    where = ", ".join(body.of(it) for it in coordinates)
    return f"tma.async_atomic_{KINDS[kind]}({body.of(desc)}, [{where}], {body.of(source)})"


WRITERS: dict[str, Writer] = by_name(
    {
        ttg.AsyncCopyGlobalToLocalOp: statement(_copy),
        ttg.AsyncCommitGroupOp: statement(_commit),
        ttg.AsyncWaitOp: statement(_wait),
        ttng.AsyncCopyMbarrierArriveOp: statement(_arrive),
        ttng.AsyncTMAReduceOp: statement(_combine),
    }
)
