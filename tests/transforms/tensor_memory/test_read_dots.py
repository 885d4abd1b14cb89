"""`read_dots`: what Triton makes of a dot on Blackwell becomes one operation."""

from __future__ import annotations

import pytest

from tawa.dialects.tcgen05 import ACCUMULATOR
from tawa.transforms.tensor_memory.read_dots import ReadDots
from tests.cases.programs.tensor_memory import MEMORY, MMA, blackwell, memory, mma, tmem_load
from tests.cases.programs.ttgir import ACC, BUFFER, kernel, op
from tests.support.passes import checked

TOKEN = "!ttg.async.token"
TILES = {"x": BUFFER, "y": BUFFER}


def dot(properties: str = MMA) -> str:
    """The operations of Triton's `tt.dot`."""
    types = f"{BUFFER}, {BUFFER}, {MEMORY}, {TOKEN}, i1, i1"
    properties = properties.replace("1, 1, 1, 0", "1, 1, 1, 1")
    return "\n".join(
        (
            op("ttng.tmem_alloc", "%zeros", ACC, "%d, %t", f"({MEMORY}, {TOKEN})").replace("%d, %t", "%d:2"),
            op("ttng.tc_gen5_mma", "%x, %y, %d#0, %d#1, %flag, %flag", types, "%u", TOKEN, properties=properties),
            op("ttng.tmem_load", "%d#0, %u", f"{MEMORY}, {TOKEN}", "%r:2", f"({ACC}, {TOKEN})"),
        )
    )


@pytest.mark.parametrize("unsigned", [False, True])
def test_the_accumulator_is_a_tile_again(unsigned: bool) -> None:
    module = blackwell(kernel(dot(f"is_unsigned, {MMA}" if unsigned else MMA), arguments=TILES))
    result = ReadDots().run(module)
    assert result.changed and result.remarks == ()
    (found,) = [it for it in checked(module).walk() if it.name == "ttng.warp_group_dot"]
    assert [it.hint for it in found.operands] == ["x", "y", "zeros"]
    assert found.attributes[ACCUMULATOR] == f'"{MEMORY}"' and ("tawa.unsigned" in found.attributes) is unsigned
    assert not any("tensor_memory" in it.type for op in module.walk() for it in op.results)


def test_a_kernel_that_uses_tensor_memory_by_itself_is_declined() -> None:
    module = blackwell(kernel(f"{memory('d')}\n{mma('x', 'y', 'd')}\n{tmem_load('r', 'd', ACC)}", arguments=TILES))
    (remark,) = ReadDots().run(module).remarks
    assert remark.kind == "declined" and "tensor memory" in remark.reason
