"""Tiles of the product kernel, and the time that a form is predicted to take on a Hopper GPU.

The model: an SM processes its tiles one after another; a step takes as long as its wgmmas or the reading of its boxes
from L2, whichever is longer; all together take at least as long as the traffic with global memory. A form with a copy
also has its launches and the time of the copy. The rates were fitted to the layers of
`bench.convolution` on an H100; only the order of the predictions matters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tawa.machine.machines import SM_90
from tawa.ops.calls.tables import blocks
from tawa.ops.convolution.geometry import Form, Geometry, images_at_a_time, multiple

EFFICIENCY = 0.756
"""The share of the peak that wgmma reaches."""
L2_BYTES_PER_CYCLE, ROWS_PER_CYCLE = 48.4, 0.426
"""Bytes and rows of boxes that TMA reads for an SM, while all of them read."""
MEMORY_BYTES_PER_US = 3.6e6
COPY_BYTES_PER_US, L2_WRITTEN_BYTES_PER_US = 3.6e6, 1.4e6
LAUNCH_US = 3.0
FILL_CYCLES, STORE_BYTES_PER_CYCLE = 939.0, 13.6
"""Of a tile: until its first boxes are there, and how fast its output leaves the SM, if nothing overlaps with it."""
OVERLAP = 0.82
"""The part of these times that the next tile does not hide."""
LIBRARY = {2: 1.05, 4: 0.85}
"""The library's time as a multiple of the predicted time of the same product without a copy, over at least 16 bytes of
channels, by the bytes of an element; it makes the copy that fills channels up, too. As measured; where both are level,
the forms without a copy come first."""
WAYS: tuple[tuple[int, int, int], ...] = (
    (128, 256, 8),
    (256, 128, 8),
    (128, 128, 8),
    (256, 64, 8),
    (128, 64, 4),
    (64, 256, 4),
    (64, 128, 4),
    (64, 64, 4),
    (128, 32, 4),
)
"""Pixels and channels of a tile, and its warps."""
SWIZZLES = (128, 64, 32)
"""Bytes of a step: those of a swizzled row of shared memory."""
SLACK = 1.02
"""Among boxes that need up to so many times the fewest tiles, the one with the longest rows is taken."""


@dataclass(frozen=True, slots=True)
class Tile:
    """Images, rows and columns of pixels, channels, elements of a step, and warps."""

    BB: int
    BH: int
    BW: int
    BC: int
    BK: int
    warps: int

    def tiles(self, of: Geometry) -> tuple[int, int, int, int]:
        """Tiles of images, rows, columns and channels."""
        return blocks(of.N, self.BB), blocks(of.OH, self.BH), blocks(of.OW, self.BW), blocks(of.CO, self.BC)

    @property
    def pixels(self) -> int:
        """BM."""
        return self.BB * self.BH * self.BW


def boxes(pixels: int) -> Iterator[tuple[int, int, int]]:
    """All shapes (images, rows, columns) of so many pixels, those with the longest rows first."""
    columns = pixels
    while columns:
        rows = pixels // columns
        while rows:
            yield pixels // columns // rows, rows, columns
            rows //= 2
        columns //= 2


def best_box(of: Geometry, pixels: int, slack: float = SLACK) -> tuple[int, int, int]:
    """The shape of a tile of so many pixels that wastes least, or little and has longer rows."""
    counts = {it: blocks(of.N, it[0]) * blocks(of.OH, it[1]) * blocks(of.OW, it[2]) for it in boxes(pixels)}
    fewest = min(counts.values())
    return next(it for it, count in counts.items() if count <= slack * fewest)


def steps_of(of: Geometry, form: Form) -> Iterator[int]:
    """Elements of a step that the form allows."""
    for size in SWIZZLES:
        step = size // of.bytes
        if form.view != "parities" or form.length % step == 0:
            yield step


def product_us(of: Geometry, form: Form, tile: Tile, processors: int) -> float:
    """The time of the product alone."""
    images, rows, columns, channels = tile.tiles(of)
    of_one = blocks(images * rows * columns * channels, processors)
    steps = form.taps * blocks(form.length, tile.BK)
    boxes_rows = tile.pixels + tile.BC
    step = max(
        tile.pixels * tile.BC * tile.BK * of.bytes / 2 / SM_90.costs.fp16_fma_per_cycle / EFFICIENCY,
        boxes_rows * tile.BK * of.bytes / L2_BYTES_PER_CYCLE,
        boxes_rows / ROWS_PER_CYCLE,
    )
    around = FILL_CYCLES + tile.pixels * tile.BC * of.bytes / STORE_BYTES_PER_CYCLE
    cycles = of_one * (steps * step + OVERLAP * around) + (1 - OVERLAP) * around
    source = of.N * of.C * of.H * of.W * of.bytes if form.source == "input" else form.extra_bytes(of)
    traffic = source + (of.N * of.OH * of.OW * of.CO + of.CO * form.taps * form.length) * of.bytes
    return LAUNCH_US + max(cycles / SM_90.clock_ghz / 1e3, traffic / MEMORY_BYTES_PER_US)


def copy_us(of: Geometry, form: Form) -> float:
    """The time of the transform before it, and of the launches for each part of the images."""
    if form.source == "input":
        return 0.0
    launches = 2 * blocks(of.N, images_at_a_time(of, form)) - 1
    return (
        launches * LAUNCH_US
        + of.N * of.C * of.H * of.W * of.bytes / COPY_BYTES_PER_US
        + form.extra_bytes(of) / L2_WRITTEN_BYTES_PER_US
    )


def library_us(of: Geometry, processors: int, channels_last: bool) -> float:
    """The time of the library's convolution; it makes the copy that brings channels last, too."""
    channels = multiple(of.C, of.unit)
    same = replace(of, C=channels)
    product = best_tile(same, Form("input", "padded", of.KH * of.KW, channels), processors)[1]
    filled = (
        0.0
        if channels == of.C and channels_last
        else of.N * of.H * of.W * (of.C + channels) * of.bytes / COPY_BYTES_PER_US
    )
    return LIBRARY[of.bytes] * (product + filled)


def tiles_for(of: Geometry, form: Form) -> Iterator[Tile]:
    """The tiles among which `best_tile` chooses."""
    for pixels, channels, warps in WAYS:
        if channels > 32 and channels >= 2 * of.CO:
            continue
        for step in steps_of(of, form):
            yield Tile(*best_box(of, pixels), channels, step, warps)


def best_tile(of: Geometry, form: Form, processors: int) -> tuple[Tile, float]:
    """The tile that is predicted to be the fastest, and the predicted time of the product."""
    timed = [(product_us(of, form, tile, processors), tile) for tile in tiles_for(of, form)]
    time, tile = min(timed, key=lambda it: it[0])
    return tile, time


@dataclass(frozen=True, slots=True)
class Choice:
    """A form with its tile; `form` is None where the library's convolution is used. us: the predicted time."""

    form: Form | None
    tile: Tile | None
    us: float


def choices(of: Geometry, forms: tuple[Form, ...], processors: int, channels_last: bool = True) -> tuple[Choice, ...]:
    """The forms and the library, the fastest first. channels_last: whether the input has them last in memory."""
    found = [Choice(None, None, library_us(of, processors, channels_last))]
    for form in forms:
        tile, time = best_tile(of, form, processors)
        found.append(Choice(form, tile, time + copy_us(of, form)))
    return tuple(sorted(found, key=lambda it: it.us))
