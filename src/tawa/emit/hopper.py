"""Shared memory, mbarriers, TMA and wgmma."""

from __future__ import annotations

from math import prod

from tawa.dialects import arith, builtin, ttg, ttng
from tawa.dialects.declare.declaration import by_name
from tawa.dialects.ttng import TensormapCreateOp
from tawa.emit.body import Body, Writer, statement
from tawa.emit.errors import cannot_say
from tawa.emit.expressions import integers, type_source
from tawa.ir import Operation, Value
from tawa.ir.locations import source_of
from tawa.ir.types import MemDescType, TensorDescType, TensorType, parse_type

DEFAULT_IMPRECISE = 2**30
"""Sums of an fp8 dot that Hopper may add up in limited precision: Triton's default is all."""


def _alloc(body: Body, op: Operation) -> None:
    type = parse_type(op.result.type)
    assert isinstance(type, MemDescType)
    barrier = type.element == "i64" and type.shape[-1:] == (1,)
    layout = "mbarrier.MBarrierLayout()" if barrier else body.layout(type)
    value = f", {body.of(op.operands[0])}" if op.operands else ""
    shape = list(type.shape)
    body.comment(op)
    wish = op.result.hint or ("barriers" if barrier else "tiles")
    name = body.names.name(op.result, wish)
    body.put(f"{name} = gl.allocate_shared_memory({type_source(type.element)}, {shape}, {layout}{value})")


def _pred(body: Body, value: Value | None) -> str:
    text = body.of(value) if value is not None else "True"
    return "" if text == "True" else f", pred={text}"


def _wait(body: Body, op: Operation) -> str:
    bar, phase, *more = op.operands
    return f"mbarrier.wait({body.of(bar)}, {body.of(phase)}{_pred(body, more[0] if more else None)})"


def _arrive(body: Body, op: Operation) -> str:
    count = integers(op.properties["count"])[0]
    pred = _pred(body, op.operands[1] if len(op.operands) > 1 else None)
    return f"mbarrier.arrive({body.of(op.operands[0])}, count={count}{pred})"


def _expect(body: Body, op: Operation) -> str:
    size = integers(op.properties["size"])[0]
    return f"mbarrier.expect({body.of(op.operands[0])}, {size}{_pred(body, op.operands[1])})"


def _tma_load(body: Body, op: Operation) -> str:
    desc, *coordinates, bar, result, pred = op.operands
    where = ", ".join(body.of(it) for it in coordinates)
    return f"tma_load({body.of(desc)}, [{where}], {body.of(bar)}, {body.of(result)}{_pred(body, pred)})"


def _tma_store(body: Body, op: Operation) -> str:
    desc, *coordinates, source = op.operands
    where = ", ".join(body.of(it) for it in coordinates)
    return f"tma_store({body.of(desc)}, [{where}], {body.of(source)})"


def _load_shared(body: Body, op: Operation) -> None:
    type = parse_type(op.result.type)
    assert isinstance(type, TensorType)
    body.assign(op, f"{body.of(op.operands[0], atomic=True)}.load({body.layout(type)})")


def _dot(body: Body, op: Operation) -> None:
    known = {"inputPrecision", "isAsync", "maxNumImpreciseAcc", "operandSegmentSizes"}
    if extra := set(op.properties) - known:
        raise cannot_say(f"{sorted(extra)[0]} of a dot")
    a, b, acc, *use = op.operands
    if _element_of_buffer(b.type) == "f32" and integers(op.properties.get("inputPrecision", "0 : i32"))[0] != 0:
        raise cannot_say("a dot in float32 at full precision", source_of(body.file.module, op))
    more = ""  # Triton 3.6 takes no precision here; the default is tf32
    if use:
        more += f", use_acc={body.of(use[0])}"
    most = integers(op.properties.get("maxNumImpreciseAcc", "0 : i32"))[0]
    if _element_of_buffer(b.type).startswith("f8") and most != DEFAULT_IMPRECISE:
        more += f", max_num_imprecise_acc={most}"
    is_async = op.properties.get("isAsync", "false") == "true"
    more += ", is_async=True" if is_async else ""
    body.assign(op, f"warpgroup_mma({body.of(a)}, {body.of(b)}, {body.of(acc)}{more})")


def _element_of_buffer(text: str) -> str:
    """The element type of a buffer in shared memory."""
    type = parse_type(text)
    assert isinstance(type, MemDescType)
    return type.element


def _dot_wait(body: Body, op: Operation) -> None:
    body.comment(op)
    pendings = integers(op.properties["pendings"])[0]
    deps = [body.of(it) for it in op.operands]
    names = [body.names.name(it) for it in op.results]
    tensors = [isinstance(parse_type(it.type), TensorType) for it in op.operands]
    if not all(tensors):
        raise cannot_say("a wait for a dot that holds a buffer", source_of(body.file.module, op))
    body.put(f"{', '.join(names)} = warpgroup_mma_wait({pendings}, deps=({', '.join(deps)},))")


def _made_descriptor(body: Body, op: Operation) -> None:
    """A descriptor made in scratch memory: allocation, creation and fence are one call."""
    type = parse_type(op.result.type)
    created = [use.op for use in op.operands[0].uses if TensormapCreateOp.matches(use.op)]
    if len(created) != 1 or not isinstance(type, TensorDescType):
        raise cannot_say("a descriptor that is changed", source_of(body.file.module, op))
    view, width = TensormapCreateOp(created[0]), type.block.bytes // prod(type.block.shape)
    shape = ", ".join(body.of(it) for it in reversed(view.shape))
    strides = [_elements(body, it, width) for it in reversed(view.strides)]
    padding = ', padding_option="nan"' if view.op.attributes.get("fill_mode", "0").startswith("1") else ""
    block, layout = list(type.block.shape), body.file.layout_of(type.block.encoding, type.block.shape)
    body.file.scratch = True
    body.assign(
        op,
        f"tma.make_tensor_descriptor({body.of(view.base)}, [{shape}], [{', '.join([*strides, '1'])}], "
        f"{block}, {layout}{padding})",
    )


def _elements(body: Body, stride: Value, width: int) -> str:
    """A stride in elements, of `width` bytes, from one in bytes."""
    made = stride.defining_op
    if made is not None and arith.MulIOp.matches(made) and body.of(made.operands[1]) == str(width):
        return body.of(made.operands[0])
    text = body.of(stride)
    return str(int(text) // width) if text.isdigit() else f"({text}) // {width}"


WRITERS: dict[str, Writer] = by_name(
    {
        ttg.LocalAllocOp: _alloc,
        ttg.LocalDeallocOp: statement(lambda body, op: f"{body.of(op.operands[0])}._keep_alive()"),
        ttg.LocalLoadOp: _load_shared,
        ttg.LocalStoreOp: statement(
            lambda body, op: f"{body.of(op.operands[1], atomic=True)}.store({body.of(op.operands[0])})"
        ),
        ttng.InitBarrierOp: statement(
            lambda body, op: f"mbarrier.init({body.of(op.operands[0])}, count={integers(op.properties['count'])[0]})"
        ),
        ttng.InvalBarrierOp: statement(lambda body, op: f"mbarrier.invalidate({body.of(op.operands[0])})"),
        ttng.WaitBarrierOp: statement(_wait),
        ttng.ArriveBarrierOp: statement(_arrive),
        ttng.BarrierExpectOp: statement(_expect),
        ttng.FenceAsyncSharedOp: statement(lambda body, op: "fence_async_shared()"),
        ttng.AsyncTMACopyGlobalToLocalOp: statement(_tma_load),
        ttng.AsyncTMACopyLocalToGlobalOp: statement(_tma_store),
        ttng.AsyncTMAStoreWaitOp: statement(
            lambda body, op: f"tma.store_wait({integers(op.properties['pendings'])[0]})"
        ),
        ttng.WarpGroupDotOp: _dot,
        ttng.WarpGroupDotWaitOp: _dot_wait,
        ttg.GlobalScratchAllocOp: lambda body, op: None,
        ttng.TensormapCreateOp: lambda body, op: None,
        ttng.TensormapFenceproxyAcquireOp: lambda body, op: None,
        ttng.ReinterpretTensorDescOp: _made_descriptor,
        builtin.GpuBarrierOp: statement(lambda body, op: "thread_barrier()"),
        ttg.BarrierOp: statement(lambda body, op: "thread_barrier()"),
    }
)

__all__ = ["WRITERS"]
