"""Notes the launches of a program for `tawa tune`: a job (`tawa.runtime.tuning.jobs`) for each kernel and shape class.

``TAWA_COLLECT=FOLDER`` switches it on, in a program under `tawa run`, and in the processes that it starts. The program
runs as usual; each launch that is of a new kernel or shape class is written to the folder.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tawa.bridge.launch.added_arguments import multiprocessors, options_of
from tawa.bridge.launch.host import Choices
from tawa.bridge.report.record import KEY
from tawa.errors import TawaError
from tawa.plan.search.measured import Prepare
from tawa.processes import append_line
from tawa.runtime.tuning.jobs import (
    Argument,
    DescriptorArgument,
    Job,
    Storage,
    TensorArgument,
    TupleArgument,
    ValueArgument,
)
from tawa.runtime.tuning.shape_class import shape_class

_log = logging.getLogger("tawa")

MOST_CONTENTS = 1 << 28
"""Bytes of integer tensors that a job keeps."""
LEFT_OUT = "left-out.jsonl"


class NotTunable(TawaError):
    """A launch that cannot be repeated in another process; the text says why."""


class Collector(Choices):
    """The `Choices` of one kernel while launches are noted: chooses nothing."""

    def __init__(self, kernel: Any, folder: Path) -> None:
        self.kernel, self.folder = kernel, folder
        facts = getattr(kernel.metadata, KEY)["tuning"]
        self.sizes = [(index, name) for index, name in facts["sizes"]]
        self.arguments = frozenset(index for index, _ in self.sizes)
        self.processors = multiprocessors()
        self.seen: set[str] = set()

    def measure(self, values: Sequence[Any], grid: Sequence[int], args: Sequence[Any], prepare: Prepare) -> None:
        """Notes the launch if its shape class is new."""
        name = shape_class(self.sizes, values, grid, self.processors)
        if name in self.seen:
            return
        self.seen.add(name)
        try:
            job_of(self.kernel, name, grid, args).save(self.folder)
        except Exception as error:  # the program goes on
            reason = str(error) if isinstance(error, NotTunable) else f"{type(error).__name__}: {error}"
            _log.warning("%s is not tuned: %s", self.kernel.name, reason)
            self._note(name, reason)

    def _note(self, name: str, reason: str) -> None:
        about = {"kernel": self.kernel.name, "shape_class": name, "reason": reason}
        append_line(self.folder / LEFT_OUT, json.dumps(about))


def left_out(folder: Path) -> list[dict[str, str]]:
    """The launches that could not be noted, with their reasons."""
    path = folder / LEFT_OUT
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def job_of(kernel: Any, name: str, grid: Sequence[int], args: Sequence[Any]) -> Job:
    """One launch as a job. name: its shape class. args: as Triton's launcher gets them. Raises NotTunable."""
    memory = _Memory()
    arguments = tuple(memory.argument(*it) for it in zip(kernel.src.signature.values(), args, strict=True))
    return described_job(kernel, name, grid, arguments, memory.storages(), memory.contents())


def described_job(
    kernel: Any, name: str, grid: Sequence[int], arguments: tuple[Argument, ...], storages: tuple[Storage, ...],
    contents: Mapping[int, Any],
) -> Job:  # fmt: skip
    """The job of a compiled kernel and a launch that is described already. Raises NotTunable."""
    facts = getattr(kernel.metadata, KEY)["tuning"]
    source = kernel.asm.get("source")
    if source is None:
        raise NotTunable("Triton kept no IR of its front end")
    if facts["follows_addresses"]:
        raise NotTunable("it follows addresses that it reads from memory; in another process they lead nowhere")
    x, y, z = (*grid, 1, 1)[:3]
    return Job(
        kernel.name, facts["key"], name, dict(kernel.src.signature), options_of(kernel), facts["options"],
        facts["plan"], tuple(facts["may_be_one"]), (x, y, z), arguments, storages, source, contents,
    )  # fmt: skip


class _Memory:
    """The storages of a launch, in the order in which arguments use them."""

    def __init__(self) -> None:
        self.found: dict[int, tuple[Any, Any]] = {}

    def argument(self, kind: Any, value: Any) -> Argument:
        if isinstance(kind, tuple):
            return TupleArgument(tuple(self.argument(*it) for it in zip(kind, value, strict=True)))
        if kind == "constexpr":
            return ValueArgument(None)
        if kind.startswith("tensordesc"):
            base = self.tensor(value.base)
            shape, strides, block = (tuple(map(int, it)) for it in (value.shape, value.strides, value.block_shape))
            return DescriptorArgument(base, shape, strides, block, getattr(value, "padding", "zero"))
        if kind.startswith("*"):
            return self.tensor(value)
        return ValueArgument(value)

    def tensor(self, tensor: Any) -> TensorArgument:
        if not hasattr(tensor, "untyped_storage"):
            raise NotTunable("memory is passed as an address, whose size is not known; cure: pass tensors")
        storage = tensor.untyped_storage()
        place = storage.data_ptr()
        self.found.setdefault(place, (storage, tensor))
        number = list(self.found).index(place)
        offset = (tensor.data_ptr() - place) // tensor.element_size()
        dtype = str(tensor.dtype).removeprefix("torch.")
        return TensorArgument(number, dtype, tuple(tensor.shape), tuple(tensor.stride()), offset)

    def storages(self) -> tuple[Storage, ...]:
        return tuple(
            Storage(storage.nbytes(), str(tensor.dtype).removeprefix("torch."), _keeps_contents(tensor))
            for storage, tensor in self.found.values()
        )

    def contents(self) -> dict[int, Any]:
        """The bytes of the storages of integers."""
        kept: dict[int, Any] = {}
        for number, (storage, tensor) in enumerate(self.found.values()):
            if not _keeps_contents(tensor):
                continue
            if storage.nbytes() > MOST_CONTENTS:
                raise NotTunable(
                    f"an integer tensor of {storage.nbytes()} bytes: its contents may decide what is read, and are too "
                    "large to keep"
                )
            kept[number] = _bytes_of(storage)
        return kept


def _keeps_contents(tensor: Any) -> bool:
    """Whether the contents may decide trip counts or addresses: 8-bit integers are quantised numbers."""
    return not tensor.dtype.is_floating_point and tensor.element_size() > 1


def _bytes_of(storage: Any) -> Any:
    import torch

    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage).cpu().numpy()
