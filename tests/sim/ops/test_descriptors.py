"""TMA descriptors: padding outside the tensor, and reductions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tawa.sim import Descriptor, simulate
from tawa.sim.errors import ArgumentError, MisalignedDescriptor
from tests.sim.language import WIDTH, floats, integers, language_kernel


def test_a_device_descriptor_pads_with_its_padding_option() -> None:
    x, y = floats(40).astype(np.float16), np.zeros(64 * WIDTH, np.float16)
    module = language_kernel("made_descriptors", {"x": "*fp16", "y": "*fp16"})
    assert "ttng.tensormap_create" in {op.name for op in module.walk()}
    simulate(module, {"x": x, "y": y}, (1,))
    assert (y[: 40 * WIDTH] == x).all()
    assert np.isnan(y[40 * WIDTH :]).all()


@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_a_host_descriptor_pads_with_its_padding_option(padding: Any) -> None:
    types = {"source": "tensordesc<fp16[32,64]>", "target": "tensordesc<fp16[32,64]>"}
    x, y = floats(40).astype(np.float16).reshape(40, WIDTH), np.zeros((64, WIDTH), np.float16)
    arguments = {"source": Descriptor(x, padding=padding), "target": Descriptor(y)}
    simulate(language_kernel("given_descriptors", types), arguments, (1,))
    assert (y[:40] == x).all()
    assert np.isnan(y[40:]).all() if padding == "nan" else (y[40:] == 0).all()


def test_a_host_descriptor_begins_at_a_multiple_of_16_bytes_of_its_memory() -> None:
    types = {"source": "tensordesc<fp16[32,64]>", "target": "tensordesc<fp16[32,64]>"}
    memory = floats(65).astype(np.float16).reshape(-1)
    module, target = language_kernel("given_descriptors", types), np.zeros((64, WIDTH), np.float16)
    simulate(module, {"source": memory[8 : 8 + 64 * WIDTH].reshape(64, WIDTH), "target": target}, (1,))
    assert (target.reshape(-1) == memory[8 : 8 + 64 * WIDTH]).all()
    with pytest.raises(MisalignedDescriptor, match="descriptor source begins 8 bytes behind the start of its memory"):
        simulate(module, {"source": memory[4 : 4 + 64 * WIDTH].reshape(64, WIDTH), "target": target}, (1,))


def test_nan_padding_needs_a_float_type_that_tma_knows() -> None:
    types = {"source": "tensordesc<fp8e5[32,64]>", "target": "tensordesc<fp8e5[32,64]>"}
    bits = np.zeros((64, WIDTH), np.uint8)
    with pytest.raises(ArgumentError, match="pads f8E5M2 with 'nan'"):
        simulate(
            language_kernel("given_descriptors", types),
            {"source": Descriptor(bits, padding="nan"), "target": Descriptor(bits)},
            (1,),
        )


@pytest.mark.parametrize("order", ["eager", "late", "random"])
def test_tma_reductions_of_integers(order: Any) -> None:
    module = language_kernel("integer_reductions", {"target": "tensordesc<i32[32,64]>", "x": "*i32"})
    before, x = integers(192).reshape(6, 32, WIDTH), integers(32, 1)
    target = before.reshape(192, WIDTH).copy()
    simulate(module, {"target": target, "x": x}, (1,), order)
    v = x.reshape(32, WIDTH)
    wanted = [before[0] + v, np.maximum(before[1], v), np.minimum(before[2], v)]
    wanted += [before[3] & v, before[4] | v, before[5] ^ v]
    assert (target.reshape(6, 32, WIDTH) == np.stack(wanted)).all()


@pytest.mark.parametrize("order", ["eager", "late", "random"])
def test_a_tma_reduction_changes_the_last_chunk_of_a_row_whole(order: Any) -> None:
    """As an H200 does: three columns of int32 behind 61."""
    module = language_kernel("integer_reductions", {"target": "tensordesc<i32[32,64]>", "x": "*i32"})
    before, x = integers(192).reshape(6, 32, WIDTH), integers(32, 1)
    target = before.reshape(192, WIDTH).copy()
    simulate(module, {"target": Descriptor(target, (192, WIDTH - 3)), "x": x}, (1,), order)
    v = x.reshape(32, WIDTH)
    wanted = [before[0] + v, np.maximum(before[1], v), np.minimum(before[2], v)]
    wanted += [before[3] & v, before[4] | v, before[5] ^ v]
    assert (target.reshape(6, 32, WIDTH) == np.stack(wanted)).all()


def test_a_tma_reduction_rounds_and_stays_inside_the_tensor() -> None:
    module = language_kernel("float_reduction", {"target": "tensordesc<fp16[32,64]>", "x": "*fp16"})
    before, x = floats(30).astype(np.float16).reshape(30, WIDTH), floats(32, 1).astype(np.float16)
    target = before.copy()
    simulate(module, {"target": target, "x": x}, (1,))
    assert (target[:8] == before[:8]).all()
    wanted = before[8:].astype(np.float32) + x.reshape(32, WIDTH)[:22].astype(np.float32)
    assert (target[8:] == wanted.astype(np.float16)).all()
