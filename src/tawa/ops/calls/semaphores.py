"""Semaphores that the programs of a launch share: 32-bit numbers in GPU memory, 0 before and after each launch."""

from __future__ import annotations

import torch

LEAST = 1024


def semaphores(like: torch.Tensor, count: int) -> torch.Tensor:
    """At least `count` semaphores for a launch on the current stream of a tensor's device.

    Launches on one stream follow each other, so they share their semaphores. A CUDA graph gets its own, which it clears
    in each replay: two graphs may be replayed beside each other.
    """
    if like.device.type != "cuda":
        return torch.zeros(count, dtype=torch.int32, device=like.device)
    if torch.cuda.is_current_stream_capturing():
        return torch.zeros(count, dtype=torch.int32, device=like.device)
    key = like.device.index, torch.cuda.current_stream(like.device).cuda_stream
    found = _known.get(key)
    if found is None or found.numel() < count:
        found = _known[key] = torch.zeros(max(count, LEAST), dtype=torch.int32, device=like.device)
    return found


_known: dict[tuple[int | None, int], torch.Tensor] = {}
