"""Ask limits: a loop whose loads become TMA loads only where strides from memory are as TMA needs them.

    %c = for %k … { load %a; load %b; dot }      →      %fits = (1 <= %s < 2^40 bytes)
                                                        %c = if %fits { for %k … { load %a; load %b; dot } }
                                                             else     { for %k … { load %a'; load %b'; dot } }

A stride that the kernel loads may be 0 or less: pointers take that, a descriptor does not, and no launch can look. The
first loop is the one whose loads are raised. In the second they stay with the warps that compute (``tawa.stays``): it
is hardly ever executed, and asks neither for a ring nor for warps of a producer.

Requires: TTIR; every scalar of the limits is known in front of the loop.
Ensures: the same values as before, whichever loop is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tawa.analysis.tma.descriptor_places import Limit
from tawa.dialects.arith import AndIOp
from tawa.dialects.scf import IfOp, YieldOp
from tawa.dialects.tt import STAYS
from tawa.ir import Block, Builder, Operation, Region, Value, clone_op
from tawa.transforms.materialize import Materializer
from tawa.transforms.ttir.kernel_descriptors import holds_at


def ask_limits(
    loop: Operation, limits: Sequence[Limit], numbers: Materializer, moves: Callable[[Operation], bool]
) -> None:
    """Puts `loop` where all limits hold, and a copy where not. moves: which loads of the copy have to stay."""
    builder = Builder.before(loop)
    fits: Value | None = None
    for limit in limits:
        holds = holds_at(builder, limit, numbers)
        fits = holds if fits is None else AndIOp.create(builder, fits, holds, "fits")
    assert fits is not None
    kept = [op for op in loop.walk() if moves(op)]
    for op in kept:
        op.attributes[STAYS] = "unit"
    copy = clone_op(loop, {})
    for op in kept:
        del op.attributes[STAYS]
    then, other = Block(), Block()
    types, hints = [result.type for result in loop.results], [result.hint for result in loop.results]
    choice = builder.create(IfOp.NAME, (fits,), types, regions=[Region([then]), Region([other])], hints=hints)
    for result, chosen in zip(loop.results, choice.results, strict=True):
        result.replace_all_uses_with(chosen)
    for block, version in ((then, loop.detach()), (other, copy)):
        block.append(version)
        block.append(Operation(YieldOp.NAME, version.results, loc=loop.loc))


__all__ = ["ask_limits"]
