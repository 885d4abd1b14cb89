"""Tables of measured Plans: what is in an entry, and the JSON that holds entries.

A table is one JSON object, on disk (`tawa.runtime.tuning.store`) and as a file that is shipped with a package:

    {"tawa_table": 1, "entries": [{"key": …, "kernel": "gemm", "gpu": "NVIDIA H200", "versions": {…},
                                   "shape_class": "K <= 4096, 3 waves", "plan": {…}, "times": [{…}, …], …}]}

An entry serves launches of one kernel (by its tuning key, `tawa.bridge.driver.tuning.tuning_facts`) and one shape
class, on one kind of GPU, under the versions of Tawa and Triton that it was measured with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from tawa.errors import PlanError, TableError
from tawa.outside import Unfit, json_of, names_and_values, read, shown, text_of
from tawa.plan import Plan
from tawa.plan.search.measured import Timed

FORMAT = 1
_MARK = "tawa_table"
_KEY = re.compile(r"[0-9a-z]{32}")


@dataclass(frozen=True, slots=True)
class Entry:
    """The measurement of one kernel and shape class on one kind of GPU.

    kernel: its name, for people. sizes: its deciding arguments, number and name. versions: of Tawa and Triton. plan:
    the fastest. words: that Plan for people. times: of all Plans that were considered. date: when, in UTC.
    learned: whether launches of a program measured it; no measurement that the user asked for gives way to it.
    """

    key: str
    kernel: str
    gpu: str
    versions: Mapping[str, str]
    shape_class: str
    sizes: tuple[tuple[int, str], ...]
    plan: Plan
    words: str
    times: tuple[Timed, ...]
    date: str
    learned: bool = False

    def __post_init__(self) -> None:
        check_key(self.key)
        for name in ("kernel", "gpu", "shape_class", "words", "date"):  # people read them on terminals
            if not getattr(self, name).isprintable():
                raise Unfit(f"{name} is {shown(getattr(self, name))}, not text without control characters")
        for name in ("tawa", "triton"):
            if name not in self.versions:
                raise Unfit(f"versions.{name} is missing")

    @property
    def identity(self) -> tuple[str, ...]:
        """Two entries of one identity answer the same question; the later one is kept."""
        return self.key, self.shape_class, self.gpu, self.versions["tawa"], self.versions["triton"]

    @property
    def gain(self) -> float | None:
        """Stock Triton's time over that of the fastest Plan; None if stock Triton's kernel was not timed."""
        stock = next((it.median_us for it in self.times if it.plan.get("form") == "stock"), None)
        own = self.best.median_us if self.best is not None else None
        return stock / own if stock and own else None

    @property
    def best(self) -> Timed | None:
        """The times of the fastest Plan."""
        return next((it for it in self.times if Plan.from_data(it.plan) == self.plan), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {**asdict(self), "plan": self.plan.to_dict(), "sizes": [list(it) for it in self.sizes]}


def check_key(key: str) -> str:
    """The key, which names a file; raises Unfit if it is not valid."""
    if not _KEY.fullmatch(key):
        raise Unfit(f"key is {shown(key)}, not 32 small letters and digits")
    return key


def one_line(text: str) -> str:
    """A text as a note: without line breaks, and not too long."""
    return " ".join(text.split())[:300]


def versions_here() -> dict[str, str]:
    """The versions of Tawa and Triton that run."""
    from tawa import __version__
    from tawa.bridge.triton.versions import triton_version

    return {"tawa": __version__, "triton": ".".join(map(str, triton_version()))}


def table_text(entries: Iterable[Entry]) -> str:
    """The JSON of a table."""
    return json.dumps({_MARK: FORMAT, "entries": [it.to_dict() for it in entries]}, indent=1) + "\n"


def read_table(path: Path) -> tuple[Entry, ...]:
    """Reads a table; raises TableError, with the file and the cure, if it is not a whole table of this format."""
    try:
        data = json_of(text_of(path))
        if not isinstance(data, dict) or _MARK not in data:
            raise TableError(f"{path} is not a table of tuned kernels; cure: a file that tawa tune --export wrote")
        table = names_and_values(cast(object, data))
        if table.pop(_MARK) != FORMAT:
            raise TableError(
                f"{path} is a table of format {shown(data[_MARK])}; this Tawa reads format {FORMAT}; cure: tune again "
                "with this version of Tawa, and export anew"
            )
        return read(_Table, table).entries
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror}; cure: name a file that can be read") from error
    except (PlanError, Unfit) as error:
        what = one_line(str(error).partition("; cure: ")[0])
        raise TableError(
            f"{path} is damaged ({what}); cure: delete it and tune again, or get the file again from where it came"
        ) from error


@dataclass(frozen=True, slots=True)
class _Table:
    """A table without its format."""

    entries: tuple[Entry, ...]


def refuse_foreign(path: Path, entries: Iterable[Entry], gpu: str) -> None:
    """Raises TableError for a table of which this process could use no entry.

    gpu: of this machine; empty if it has none, then tables of any GPU pass.
    """
    known, here = tuple(entries), versions_here()
    if not known:
        raise TableError(f"{path} has no entries; cure: tune first, then tawa tune --export")
    mine = [it for it in known if dict(it.versions) == here]
    if not mine:
        theirs, ours = _versions(known[0].versions), _versions(here)
        raise TableError(
            f"{path} was tuned with {theirs}; here are {ours}, whose kernels may differ; cure: install those versions, "
            "or tune again with these"
        )
    if gpu and not any(it.gpu == gpu for it in mine):
        names = ", ".join(sorted({it.gpu for it in mine}))
        raise TableError(f"{path} was tuned on {names}; this machine has {gpu}; cure: tune again on this machine")


def _versions(versions: Mapping[str, str]) -> str:
    return f"Tawa {versions['tawa']} and Triton {versions['triton']}"
