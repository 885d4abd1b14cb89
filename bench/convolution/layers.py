"""The layers that are timed: the twelve of the im2win paper (arXiv 2306.14316), and those of ResNet-50 with padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

BATCH = 128


@dataclass(frozen=True, slots=True)
class Layer:
    """Square inputs of C channels and H rows, filters of K x K."""

    name: str
    C: int
    H: int
    CO: int
    K: int
    stride: int
    padding: int = 0

    @property
    def OH(self) -> int:
        """Rows of the output."""
        return (self.H + 2 * self.padding - self.K) // self.stride + 1

    @property
    def flop(self) -> int:
        """Multiplications and additions."""
        return 2 * BATCH * self.OH**2 * self.CO * self.C * self.K**2

    def im2col_bytes(self, size: int) -> int:
        """The memory of im2col, with elements of `size` bytes."""
        return BATCH * self.OH**2 * self.C * self.K**2 * size

    def tensors(self, dtype: Any) -> tuple[Any, Any]:
        """Input and filters, channels last in memory."""
        import torch

        generator = torch.Generator(device="cuda").manual_seed(0)
        shapes = (BATCH, self.C, self.H, self.H), (self.CO, self.C, self.K, self.K)
        made = (torch.randn(shape, generator=generator, device="cuda", dtype=dtype) for shape in shapes)
        x, weight = (it.contiguous(memory_format=torch.channels_last) for it in made)
        return x, weight


PAPER = tuple(
    Layer(f"paper {number}", *sizes)
    for number, sizes in enumerate(
        (
            (3, 227, 96, 11, 4), (3, 231, 96, 11, 4), (3, 227, 64, 7, 2), (32, 224, 64, 7, 2), (96, 24, 256, 5, 1),
            (256, 12, 512, 3, 1), (3, 224, 64, 3, 1), (64, 112, 128, 3, 1), (64, 56, 64, 3, 1), (128, 28, 128, 3, 1),
            (256, 14, 256, 3, 1), (512, 7, 512, 3, 1),
        ),
        start=1,
    )
)  # fmt: skip
RESNET = tuple(
    Layer(f"ResNet {sizes[0]}x{sizes[1]} / {sizes[4]}", *sizes)
    for sizes in (
        (3, 224, 64, 7, 2, 3), (64, 56, 64, 3, 1, 1), (128, 56, 128, 3, 2, 1), (128, 28, 128, 3, 1, 1),
        (256, 28, 256, 3, 2, 1), (256, 14, 256, 3, 1, 1), (512, 14, 512, 3, 2, 1), (512, 7, 512, 3, 1, 1),
    )
)  # fmt: skip
LAYERS = (*PAPER, *RESNET)
