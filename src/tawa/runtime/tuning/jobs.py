"""Jobs: one launch of one kernel, in a folder, so that any process can compile it and make its arguments anew.

    JOB/job.json         the kernel's name, options and signature, its arguments by size, type and stride, the grid
    JOB/source.mlir      the kernel as Triton's front end made it: the user's code is not needed again
    JOB/contents.npz     the contents of integer tensors, which may decide trip counts and addresses

Floats are not stored: a worker fills them with random normal numbers. Tensors that share memory share it again, at the
same distance, so that alignment stays as it was.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, cast

from tawa.outside import json_of, names_and_values, read, text_of

FORMAT = 1
SOURCE, FACTS, CONTENTS = "source.mlir", "job.json", "contents.npz"


@dataclass(frozen=True, slots=True)
class Storage:
    """Memory that one or more tensors lie in. contents: whether the job has them; else it is filled at random."""

    bytes: int
    dtype: str
    contents: bool = False


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """A tensor: where it lies in which storage. offset: in elements."""

    storage: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0


@dataclass(frozen=True, slots=True)
class DescriptorArgument:
    """A host tensor descriptor."""

    base: TensorArgument
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block_shape: tuple[int, ...]
    padding: str = "zero"


@dataclass(frozen=True, slots=True)
class ValueArgument:
    """A number, or None for what the compile knows already."""

    value: bool | int | float | None


@dataclass(frozen=True, slots=True)
class TupleArgument:
    """A tuple of arguments."""

    items: tuple[Argument, ...]


Argument = TensorArgument | DescriptorArgument | ValueArgument | TupleArgument


@dataclass(frozen=True, slots=True)
class _Launch:
    """The fields of a job that are stored unchanged."""

    name: str
    key: str
    shape_class: str
    signature: Mapping[str, Any]
    options: Mapping[str, Any]
    tawa: Mapping[str, Any]
    plan: Mapping[str, Any] | None
    may_be_one: tuple[str, ...]
    grid: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Job(_Launch):
    """One launch to tune.

    name: of the kernel. key: its tuning key. shape_class: of the launch. signature: types by name, nested tuples for
    tuples. options: Triton's. tawa: Tawa's options. plan: the pinned part of the Plan. grid, arguments, storages: of
    the launch. source: the kernel's IR. contents: arrays by the number of their storage.
    """

    arguments: tuple[Argument, ...]
    storages: tuple[Storage, ...]
    source: str = field(repr=False)
    contents: Mapping[int, Any] = field(default_factory=dict[int, Any], repr=False)

    @property
    def id(self) -> str:
        """The name of its folder: the same kernel and class give the same job."""
        import hashlib

        name = re.sub(r"\W+", "_", self.name)[:40]
        return f"{name}-{hashlib.sha256(f'{self.key}|{self.shape_class}'.encode()).hexdigest()[:16]}"

    def save(self, folder: Path) -> Path:
        """Writes the job into `folder`, atomically; returns its own folder. A job that is there stays."""
        target = folder / self.id
        if target.exists():
            return target
        folder.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=folder, prefix=".tmp-"))
        try:
            facts = {name: getattr(self, name) for name in _PLAIN}
            facts["arguments"] = [_to_dict(it) for it in self.arguments]
            facts["storages"] = [asdict(it) for it in self.storages]
            (temporary / FACTS).write_text(json.dumps({"format": FORMAT, **facts}, indent=1))
            (temporary / SOURCE).write_text(self.source, encoding="utf-8")
            if self.contents:
                import numpy as np

                np.savez_compressed(temporary / CONTENTS, **{str(it): array for it, array in self.contents.items()})
            try:
                os.rename(temporary, target)
            except OSError:  # another process noted the same launch
                shutil.rmtree(temporary)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        return target

    @staticmethod
    def load(folder: Path) -> Job:
        """Reads a job; raises ValueError for another format, and for a damaged one."""
        facts = names_and_values(json_of(text_of(folder / FACTS)))
        if facts.pop("format", None) != FORMAT:
            raise ValueError(f"{folder}: noted by another version of Tawa")
        kept = read(_Facts, facts)
        contents: dict[int, Any] = {}
        if (folder / CONTENTS).exists():
            import numpy as np

            try:
                with np.load(folder / CONTENTS) as stored:
                    contents = {int(name): stored[name] for name in stored.files}
            except (EOFError, zipfile.BadZipFile) as error:
                raise ValueError(f"{CONTENTS} is cut off: {error}") from error
        return Job(
            **{name: getattr(kept, name) for name in _PLAIN if name not in ("signature", "options")},
            signature=_tuples(kept.signature),
            options=_tuples(kept.options),
            arguments=tuple(_from_dict(it, f"arguments[{at}]") for at, it in enumerate(kept.arguments)),
            storages=kept.storages,
            source=text_of(folder / SOURCE),
            contents=contents,
        )


_PLAIN = tuple(it.name for it in fields(_Launch))


@dataclass(frozen=True, slots=True)
class _Facts(_Launch):
    """What `FACTS` has, but for its format."""

    arguments: tuple[Mapping[str, Any], ...]
    storages: tuple[Storage, ...]


def _to_dict(argument: Argument) -> dict[str, Any]:
    match argument:
        case TensorArgument():
            return {"kind": "tensor", **asdict(argument)}
        case DescriptorArgument():
            return {"kind": "descriptor", **asdict(argument)}
        case ValueArgument(value):
            return {"kind": "value", "value": value}
        case TupleArgument(items):
            return {"kind": "tuple", "items": [_to_dict(it) for it in items]}


_KINDS: dict[str, type[Argument]] = {
    "tensor": TensorArgument, "descriptor": DescriptorArgument, "value": ValueArgument,
}  # fmt: skip


def _from_dict(data: object, where: str) -> Argument:
    rest = names_and_values(data, where)
    kind: str = read(
        cast(Any, Literal["tensor", "descriptor", "value", "tuple"]), rest.pop("kind", None), f"{where}.kind"
    )
    if kind == "tuple":
        items = read(tuple[Any, ...], rest.get("items"), f"{where}.items")
        return TupleArgument(tuple(_from_dict(it, f"{where}.items[{at}]") for at, it in enumerate(items)))
    return read(_KINDS[kind], rest, where)


def _tuples(value: Any) -> Any:
    """Turns the lists of JSON back into tuples, also within dictionaries."""
    if isinstance(value, Mapping):
        return {name: _tuples(it) for name, it in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def load_jobs(folder: Path) -> list[tuple[Path, Job]]:
    """All jobs in a folder, in order of their names."""
    paths = sorted(path.parent for path in folder.glob(f"*/{FACTS}"))
    return [(path, Job.load(path)) for path in paths if not path.name.startswith(".")]


def flat(arguments: Sequence[Argument]) -> list[Argument]:
    """The arguments, those in tuples too."""
    found: list[Argument] = []
    for it in arguments:
        found += flat(it.items) if isinstance(it, TupleArgument) else [it]
    return found
