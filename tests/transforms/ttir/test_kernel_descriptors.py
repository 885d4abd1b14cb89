"""`kernel_descriptors`: a tensor is described once, where all that it needs is known, with sizes of at least 1."""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.tma.boxes import Box, BoxDim
from tawa.analysis.tma.descriptor_places import Limit, Place
from tawa.ir import Operation, Value
from tawa.machine.nvidia import TMA_CHUNK_BYTES
from tawa.symbolic.affine import Affine
from tawa.symbolic.known import Proof
from tawa.symbolic.polynomial import ONE, ZERO, Poly
from tawa.transforms.materialize import Materializer
from tawa.transforms.ttir.kernel_descriptors import KernelDescriptors
from tests.analysis.tile_programs import TileProgram
from tests.cases.programs.ttgir import ops_named
from tests.support.filecheck import brief, check


@dataclass
class Made:
    """A loop that loads rows of a matrix of f16, and the descriptors that are made in front of it."""

    program: TileProgram
    access: Operation
    affine: Affine
    descriptors: KernelDescriptors

    def make(self, rows: Poly, limits: tuple[Limit, ...] = ()) -> tuple[Value, list[Value | None]]:
        stride = self.affine.poly(self.program.args["s"])
        dims = (BoxDim(stride, (rows,), ZERO, 64, 0), BoxDim(ONE, (Poly.of([((), 128)]),), ZERO, 32, 1))
        box = Box(self.access, self.program.args["a"], ZERO, dims, (), "f16", Proof())
        place = Place(self.program.function, self.affine, self.access)
        made, shifts = self.descriptors.make(box, place, limits, Materializer(self.affine.atoms), nested=True)
        return made, list(shifts)


def looped() -> Made:
    p = TileProgram((), a="!tt.ptr<f16>", m="i32", n="i32", s="i32")
    loop = p.loop((p.number(0), p.args["n"], p.number(1)), [], lambda _: [])
    p.finish()
    affine = Affine()
    return Made(p, loop, affine, KernelDescriptors(p.function, affine))


def test_a_size_that_may_be_0_becomes_1_and_the_indices_go_past_the_end() -> None:
    made = looped()
    _, shifts = made.make(made.affine.poly(made.program.args["m"]))
    assert [shift is not None for shift in shifts] == [True, False]
    check(
        brief(made.program.module),
        """
        CHECK:      [[SIZE:%\\w+]] = "arith.maxsi"(%m_0, {{%\\w+}})
        CHECK:      [[SOME:%\\w+]] = "arith.cmpi"(%m_0, [[ZERO:%\\w+]]) <{predicate = 4 : i64}>
        CHECK:      "arith.select"([[SOME]], [[ZERO]], {{%\\w+}})
        CHECK:      "tt.make_tensor_descriptor"(%a_0, [[SIZE]],
        CHECK-SAME: padding = 1 : i32
        CHECK:      "scf.for"
        """,
    )


def test_a_size_that_is_known_needs_no_check() -> None:
    made = looped()
    _, shifts = made.make(Poly.of([((), 256)]))
    assert shifts == [None, None] and not ops_named(made.program.module, "arith.select")


def test_equal_tensors_are_described_once_and_others_apart() -> None:
    made = looped()
    rows = made.affine.poly(made.program.args["m"])
    first, _ = made.make(rows)
    assert made.make(rows)[0] is first
    assert made.make(rows + ONE)[0] is not first
    assert len(ops_named(made.program.module, "tt.make_tensor_descriptor")) == 2


def test_a_stride_that_breaks_its_limit_is_replaced_by_the_least_there_can_be() -> None:
    made = looped()
    stride = made.affine.poly(made.program.args["s"])
    descriptor, _ = made.make(Poly.of([((), 256)]), (Limit(stride, 1 << 39),))
    assert descriptor.defining_op is not None
    chosen = descriptor.defining_op.operands[3].defining_op
    assert chosen is not None and chosen.name == "arith.select"
    least = chosen.operands[2].defining_op
    assert least is not None and least.properties["value"] == f"{TMA_CHUNK_BYTES // 2} : i64"
