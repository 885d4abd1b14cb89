"""TMA stores, descriptors and wgmma."""

from __future__ import annotations

from math import prod

from tawa.dialects import arith, builtin, ttg, ttng
from tawa.dialects.declare.declaration import by_name
from tawa.dialects.ttng import TensormapCreateOp
from tawa.emit.body import Body, Writer, statement
from tawa.emit.errors import cannot_say
from tawa.emit.rings.recognised import number_of
from tawa.emit.values.expressions import integers
from tawa.ir import Operation, Value
from tawa.ir.locations import source_of
from tawa.ir.types import TensorDescType, TensorType, memdesc_type, parse_type

DEFAULT_IMPRECISE = 2**30
"""Sums of an fp8 dot that Hopper may add up in limited precision: Triton's default is all."""


def _tma_store(body: Body, op: Operation) -> str:
    desc, *coordinates, source = op.operands
    where = ", ".join(body.of(it) for it in coordinates)
    return f"tma_store({body.of(desc)}, [{where}], {body.of(source)})"


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
    body.results(op, f"warpgroup_mma({body.of(a)}, {body.of(b)}, {body.of(acc)}{more})")


def _element_of_buffer(text: str) -> str:
    """The element type of a buffer in shared memory."""
    return memdesc_type(text).element


def _dot_wait(body: Body, op: Operation) -> None:
    pendings = integers(op.properties["pendings"])[0]
    deps = [body.of(it) for it in op.operands]
    tensors = [isinstance(parse_type(it.type), TensorType) for it in op.operands]
    if not all(tensors):
        raise cannot_say("a wait for a dot that holds a buffer", source_of(body.file.module, op))
    wishes = [body.wish(it) for it in op.operands]
    body.results(op, f"warpgroup_mma_wait({pendings}, deps=({', '.join(deps)},))", wishes)


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
    block, layout = list(type.block.shape), body.file.layout_of(type.block.encoding)
    body.file.scratch = True
    body.results(
        op,
        f"tma.make_tensor_descriptor({body.of(view.base)}, [{shape}], [{', '.join([*strides, '1'])}], "
        f"{block}, {layout}{padding})",
    )


def _elements(body: Body, stride: Value, width: int) -> str:
    """A stride in elements, of `width` bytes, from one in bytes."""
    made = stride.defining_op
    if made is not None and stride in body.held and arith.MulIOp.matches(made) and number_of(made.operands[1]) == width:
        return body.of(made.operands[0])
    text = body.of(stride)
    return str(int(text) // width) if text.isdigit() else f"({text}) // {width}"


WRITERS: dict[str, Writer] = by_name({
    ttng.FenceAsyncSharedOp: statement(lambda body, op: "fence_async_shared()"),
    ttng.AsyncTMACopyLocalToGlobalOp: statement(_tma_store),
    ttng.AsyncTMAStoreWaitOp: statement(lambda body, op: f"tma.store_wait({integers(op.properties['pendings'])[0]})"),
    ttng.WarpGroupDotOp: _dot,
    ttng.WarpGroupDotWaitOp: _dot_wait,
    ttg.GlobalScratchAllocOp: lambda body, op: None,
    ttng.TensormapCreateOp: lambda body, op: None,
    ttng.TensormapFenceproxyAcquireOp: lambda body, op: None,
    ttng.ReinterpretTensorDescOp: _made_descriptor,
    builtin.GpuBarrierOp: statement(lambda body, op: "thread_barrier()"),
    ttg.BarrierOp: statement(lambda body, op: "thread_barrier()"),
})  # fmt: skip
