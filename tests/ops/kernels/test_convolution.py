"""The convolution kernels: what Tawa makes of them, and that they are right on NumPy data, in the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.triton.read_module import read_levels
from tawa.ops.convolution.geometry import Form, Geometry, dense, forms_of
from tawa.ops.convolution.tiles import Tile
from tawa.plan import PlanOptions
from tawa.runtime.requests import make_request
from tawa.runtime.settings import Settings
from tawa.sim import Descriptor as HostDescriptor
from tawa.sim import simulate
from tests.cases.case import Descriptor, Number, Specimen
from tests.cases.convolution import Problem, exact, filters_of, product_case, transform_case, windows_of
from tests.matrix.compiling import compile_and_report, signature, specialised_levels
from tests.support.fronts import front
from tests.support.sample import sample
from tests.support.verdicts import passes

OPTIONS = PlanOptions(only_if_faster=False)
THREE = Geometry(2, 3, 15, 14, 24, 5, 5, (2, 2))
DEEP = Geometry(3, 32, 6, 7, 40, 3, 3)
PADDED = Geometry(2, 32, 6, 5, 24, 3, 3, padding=(1, 1))
HALF = Geometry(2, 32, 8, 6, 24, 3, 3, (2, 2), (1, 1))
DILATED = Geometry(2, 16, 9, 8, 16, 3, 3, (1, 1), (2, 1), (2, 1))
ODD = Geometry(2, 5, 7, 7, 7, 3, 3, padding=(1, 1))


def form_of(of: Geometry, name: str) -> Form:
    (form,) = (it for it in forms_of(of, dense(of)) if it.name == name)
    return form


def problem(of: Geometry, name: str, box: tuple[int, int, int], channels: int, step: int, **more: Any) -> Problem:
    warps = 8 if box[0] * box[1] * box[2] >= 128 else 4
    return Problem(of, form_of(of, name), Tile(*box, channels, step, warps), **more)


def run(case: Specimen, arrays: Mapping[str, Any], order: str) -> None:
    """Simulates the specialised kernel; outputs are among the arrays."""
    module = read_levels(specialised_levels(case, OPTIONS))[1]
    arguments: dict[str, Any] = {}
    for name, it in case.arguments.items():
        if isinstance(it, Descriptor):
            arguments[name] = HostDescriptor(arrays[it.tensor], it.shape, it.strides)  # type: ignore[arg-type]
        elif isinstance(it, Number):
            arguments[name] = it.value
        elif hasattr(it, "tensor"):
            arguments[name] = arrays[it.tensor]
    simulate(module, arguments, case.launch_grid(), order, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "of",
    [
        problem(THREE, "im2win", (2, 4, 8), 32, 64),
        problem(THREE, "im2win", (1, 8, 8), 32, 16, relu=True, bias=True),
        problem(THREE, "copy", (2, 4, 8), 32, 32),
        problem(DEEP, "direct", (4, 4, 4), 32, 64, bias=True),
        problem(DEEP, "direct", (8, 4, 4), 64, 32),
        problem(DEEP, "im2win", (4, 2, 8), 64, 64, relu=True),
        problem(DEEP, "direct", (2, 4, 8), 64, 128),
        problem(PADDED, "direct", (1, 8, 8), 32, 32, relu=True),
        problem(HALF, "direct", (4, 4, 4), 32, 32),
        problem(DILATED, "direct", (1, 8, 8), 16, 16),
        problem(ODD, "im2win", (2, 4, 8), 16, 32, bias=True),
        problem(ODD, "copy", (2, 4, 8), 16, 16),
    ],
    ids=lambda it: f"{it.form.name}-{it.form.view}-{it.tile.BK}",
)
@pytest.mark.parametrize("order", sample(["random", "eager"], 3))
def test_the_product_is_right_amid_nan(of: Problem, order: str) -> None:
    numbers = np.random.default_rng(1)
    shape = of.of
    x = numbers.standard_normal((shape.N, shape.C, shape.H, shape.W)).astype(np.float16)
    weight = numbers.standard_normal((shape.CO, shape.C, shape.KH, shape.KW)).astype(np.float16)
    bias = numbers.standard_normal(shape.CO).astype(np.float16)
    pixels = np.moveaxis(x, 1, 3) if of.form.source == "input" else windows_of(x, shape, of.form)
    arrays = {
        "a": np.ascontiguousarray(pixels).reshape(-1),
        "b": filters_of(weight, shape, of.form).reshape(-1),
        "o": np.full((shape.N, shape.OH, shape.OW, shape.CO), np.nan, np.float16),
        "bias": bias,
    }
    run(product_case(of), arrays, order)
    wanted = exact(x, weight, shape) + (bias.astype(np.float64) if of.bias else 0.0)
    wanted = np.maximum(wanted, 0.0) if of.relu else wanted
    assert np.abs(arrays["o"] - wanted).max() <= 2 * 2.0**-11 * np.abs(wanted).max()


def test_a_wrong_filter_is_seen() -> None:
    """The check above can fail: one element of the filter is moved."""
    of = problem(DEEP, "direct", (4, 4, 4), 32, 64)
    with pytest.raises(AssertionError):
        moved = filters_of
        try:
            globals()["filters_of"] = lambda *given: np.roll(moved(*given), 1)
            test_the_product_is_right_amid_nan(of, "eager")
        finally:
            globals()["filters_of"] = moved


LAYERS = {
    "im2win": Geometry(128, 3, 227, 227, 96, 11, 11, (4, 4)),
    "copy": Geometry(128, 3, 227, 227, 64, 7, 7, (2, 2)),
    "windows": Geometry(128, 64, 112, 112, 128, 3, 3),
    "padded": Geometry(128, 256, 14, 14, 256, 3, 3, padding=(1, 1)),
    "parities": Geometry(128, 128, 56, 56, 128, 3, 3, (2, 2), (1, 1)),
}


LARGE_TILE = (128, 256, 8)
COMPILED = (
    *((layer, LARGE_TILE, "fp16") for layer in ("im2win", "copy", "parities")),
    *((layer, (128, 64, 4), "fp16") for layer in ("im2win", "copy", "parities")),
    *(
        (layer, tile, dtype)
        for layer in ("windows", "padded")
        for tile in (LARGE_TILE, (256, 128, 8), (256, 64, 8), (128, 64, 4))
        for dtype in ("fp16", "bf16", "fp32")
    ),
)


@pytest.mark.parametrize(("layer", "tile", "dtype"), sample(COMPILED, 7), ids=str)
def test_tiles_are_views_of_slots_in_a_proved_ring(layer: str, tile: tuple[int, int, int], dtype: str) -> None:
    """Both operands of every wgmma are in shared memory: nothing is copied through registers."""
    pixels, channels, warps = tile
    of = LAYERS[layer]
    name = layer if layer in ("im2win", "copy") else "direct"
    box = {128: (32, 2, 2), 256: (1, 16, 16)}[pixels]
    step = 32 if dtype == "fp32" else 64
    case = product_case(Problem(of, form_of(of, name), Tile(*box, channels, step, warps), dtype))
    compiled, found = compile_and_report(case, OPTIONS)
    about = compiled.metadata.tawa
    assert passes(about["verdict"])
    (ring,) = about["plan"]["rings"]
    assert ring["depth"] >= 4
    assert compiled.asm["aref"].count("tt.reshape") <= 1  # the output's
    assert "ldmatrix" not in compiled.asm["ptx"]
    assert found.ptxas is not None and found.ptxas.spill_store_bytes == 0


@pytest.mark.usefixtures("without_ptx")
@pytest.mark.parametrize(("tile", "dtype", "slices"), [(LARGE_TILE, "fp16", 2), ((256, 128, 8), "fp16", 2),
                                                     (LARGE_TILE, "fp32", 8)], ids=str)  # fmt: skip
def test_a_large_tile_that_is_stored_in_slices_has_four_slots(
    tile: tuple[int, int, int], dtype: str, slices: int
) -> None:
    """In the persistent form, whose launches pass the size of the grid."""
    pixels, channels, warps = tile
    of = replace(LAYERS["padded"], bytes=4 if dtype == "fp32" else 2)
    box = {128: (32, 2, 2), 256: (1, 16, 16)}[pixels]
    case = product_case(Problem(of, form_of(of, "direct"), Tile(*box, channels, 128 // of.bytes, warps), dtype))
    asked = make_request({"plan": {"form": "persistent", "stores": [{"slices": slices}]}}, None, Settings())
    with launched_by_us():
        compiled = compile_kernel(case.kernel, signature(case), asked, num_warps=warps, num_stages=4)
    about = compiled.metadata.tawa
    assert passes(about["verdict"]) and about["plan"]["form"] == "persistent"
    assert [ring["depth"] for ring in about["plan"]["rings"]] == [4]


@pytest.mark.parametrize(
    ("of", "name"),
    [(THREE, "im2win"), (THREE, "copy"), (ODD, "im2win"), (DEEP, "im2win"), (HALF, "copy"), (HALF, "im2win")],
)
def test_window_order_is_written_completely(of: Geometry, name: str) -> None:
    """The kernel is not specialised: the simulator runs Triton's own TTGIR."""
    form = form_of(of, name)
    case = transform_case(of, form)
    made = front(case.kernel, signature(case), num_warps=4)
    x = np.random.default_rng(0).standard_normal((of.N, of.C, of.H, of.W)).astype(np.float16)
    o = np.full((of.N, form.rows, form.pitch), np.nan, np.float16)
    arguments: dict[str, Any] = {name: it.value for name, it in case.arguments.items() if isinstance(it, Number)}
    arguments |= {"x_ptr": np.ascontiguousarray(np.moveaxis(x, 1, 3)).reshape(-1), "o_ptr": o.reshape(-1)}
    width, block = case.constexprs["BW"], case.constexprs["BL"]
    grid = of.N * form.rows, -(-form.columns // width), -(-form.elements // block)
    simulate(made.whole(), arguments, grid)
    wanted = windows_of(x, of, form)
    written = form.columns * form.elements
    assert np.array_equal(o[:, :, :written], wanted[:, :, :written])
    assert np.isnan(o[:, :, written:]).all()
