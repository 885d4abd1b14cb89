"""What is timed on one layer: Tawa's forms, its choice, cuDNN, and im2col with cuBLAS. All return (N, CO, OH, OW)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.convolution.layers import BATCH, Layer

Call = Callable[[], Any]
CHOSEN, IM2COL = "Tawa", "im2col + cuBLAS"
LIBRARY = ("cuDNN, NHWC", "cuDNN, NCHW")


def geometry_of(layer: Layer, size: int) -> Any:
    """The layer as Tawa's operator sees it. size: bytes of an element."""
    from tawa.ops.convolution.geometry import Geometry

    two = (layer.stride, layer.stride), (layer.padding, layer.padding)
    return Geometry(BATCH, layer.C, layer.H, layer.H, layer.CO, layer.K, layer.K, *two, bytes=size)


def ours(layer: Layer, x: Any, weight: Any) -> dict[str, Call]:
    """Tawa's choice and each of its forms; those with a copy also with all images at a time."""
    from tawa.ops import conv2d
    from tawa.ops.convolution import geometry
    from tawa.ops.convolution.choice import call_of

    of = geometry_of(layer, x.element_size())
    options = {"stride": layer.stride, "padding": layer.padding}
    calls: dict[str, Call] = {CHOSEN: lambda: conv2d(x, weight, **options)}
    for form in geometry.forms_of(of, geometry.dense(of)):
        calls[f"Tawa, {form.name}"] = lambda name=form.name: conv2d(x, weight, form=name, **options)
        if geometry.images_at_a_time(of, form) < BATCH:
            limit, geometry.PART_BYTES = geometry.PART_BYTES, 2**40
            try:
                whole = call_of(x, weight, of, False, form.name)
            finally:
                geometry.PART_BYTES = limit
            calls[f"Tawa, {form.name}, one part"] = lambda whole=whole: whole(x, weight, None)
    return calls


def library(layer: Layer, x: Any, weight: Any) -> dict[str, Call]:
    """cuDNN through PyTorch, in both layouts."""
    import torch

    def of(x: Any, weight: Any) -> Call:
        return lambda: torch.nn.functional.conv2d(x, weight, stride=layer.stride, padding=layer.padding)

    return {LIBRARY[0]: of(x, weight), LIBRARY[1]: of(x.contiguous(), weight.contiguous())}


def im2col(layer: Layer, x: Any, weight: Any) -> Call:
    """One copy of all windows, with rows of a multiple of 16 bytes, and one product of cuBLAS."""
    import torch

    unit, elements, pad = 16 // x.element_size(), layer.C * layer.K**2, layer.padding
    columns = -(-elements // unit) * unit
    filters = weight.new_zeros((layer.CO, columns))
    filters[:, :elements] = weight.permute(0, 2, 3, 1).reshape(layer.CO, elements)

    def call() -> Any:
        padded = torch.nn.functional.pad(x.permute(0, 2, 3, 1), (0, 0, pad, pad, pad, pad)) if pad else None
        source = x.permute(0, 2, 3, 1) if padded is None else padded
        image, row, column, _ = source.stride()
        strides = image, layer.stride * row, layer.stride * column, row, column, 1
        windows = source.as_strided((BATCH, layer.OH, layer.OH, layer.K, layer.K, layer.C), strides)
        matrix = x.new_empty((BATCH * layer.OH**2, columns))
        if columns > elements:
            matrix[:, elements:] = 0
        matrix.as_strided(windows.shape, (
            layer.OH**2 * columns, layer.OH * columns, columns, layer.K * layer.C, layer.C, 1
        )).copy_(windows)  # fmt: skip
        return (matrix @ filters.T).view(BATCH, layer.OH, layer.OH, layer.CO).permute(0, 3, 1, 2)

    return call


def all_calls(layer: Layer, x: Any, weight: Any) -> dict[str, Call]:
    """The candidates by name."""
    return {**ours(layer, x, weight), **library(layer, x, weight), IM2COL: im2col(layer, x, weight)}


def tile_calls(layer: Layer, x: Any, weight: Any) -> dict[str, Call]:
    """The form that Tawa chooses, with each of its tiles, also with longer rows.

    The chosen tile also always and never persistent, and in stock Triton.
    """
    from dataclasses import replace

    from tawa.ops.calls.launches import once_for_all
    from tawa.ops.convolution.choice import choose
    from tawa.ops.convolution.geometry import dense, forms_of
    from tawa.ops.convolution.launch import SIZES, Convolution
    from tawa.ops.convolution.tiles import best_box, best_tile, product_us, tiles_for
    from tawa.ops.kernels.convolution import product

    of = geometry_of(layer, x.element_size())
    form = choose(x, of, None).form or forms_of(of, dense(of))[0]
    calls: dict[str, Call] = {}

    def add(tile: Any, label: str = "", **given: Any) -> None:
        name = f"{form.name} {tile.BB}x{tile.BH}x{tile.BW} pixels, {tile.BC} channels, {tile.BK} elements{label}"
        made = Convolution(x, weight, of, form, tile, False, **given)
        calls[name] = lambda made=made: made(x, weight, None)

    ways: dict[tuple[int, int], Any] = {}  # with the step that is predicted to be the fastest
    for tile in sorted(tiles_for(of, form), key=lambda it: product_us(of, form, it, 132)):
        ways.setdefault((tile.pixels, tile.BC), tile)
    for tile in ways.values():
        add(tile)
        images, rows, columns = best_box(of, tile.pixels, 1.2)
        if columns > tile.BW:
            add(replace(tile, BB=images, BH=rows, BW=columns))
    best = best_tile(of, form, 132)[0]
    for persistent in (True, False):
        kernel = once_for_all(product.convolve, SIZES, only_if_faster=False, persistent=persistent)
        add(best, f", persistent={persistent}", kernel=lambda kernel=kernel: kernel)
    add(best, ", stock Triton", kernel=lambda: product.convolve)
    return calls
