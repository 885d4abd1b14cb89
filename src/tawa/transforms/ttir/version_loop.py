"""Version loop: a runtime check of strides loaded from memory selects between a loop with TMA loads and a copy without.

    %c = for %k … { load %a; load %b; dot }      →      %fits = (1 <= %s < 2^40 bytes)
                                                        %c = if %fits { for %k … { load %a; load %b; dot } }
                                                             else     { for %k … { load %a'; load %b'; dot } }

A stride that the kernel loads from memory may be 0 or negative. Pointer loads support that, descriptors do not, and the
launcher cannot check it. The loads of the first loop are promoted to TMA. The loads of the second stay in the consumer
(``tawa.stays``): that loop is rarely executed and justifies neither a ring nor producer warps.

Requires: TTIR; every scalar of the limits dominates the loop.
Ensures: both versions compute the same values as the original loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tawa.analysis.tma.descriptor_places import Limit
from tawa.dialects.arith import AndIOp
from tawa.dialects.parameters import STAYS
from tawa.dialects.scf import IfOp, YieldOp
from tawa.ir import Block, Builder, Operation, Region, Value, clone_op
from tawa.transforms.materialize import Materializer
from tawa.transforms.ttir.kernel_descriptors import holds_at


def version_loop(
    loop: Operation, limits: Sequence[Limit], numbers: Materializer, moves: Callable[[Operation], bool]
) -> None:
    """Executes `loop` if all limits hold, else a copy. moves: selects the loads that stay pointer loads in the copy."""
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
