"""What several benches share: caches and tables of their own, functions that Dynamo keeps apart, arguments."""

from __future__ import annotations

import argparse
import os
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any


def use_caches(folder: str, inductor: str = "inductor") -> None:
    """Lets Inductor and Triton keep what they compile in `folder`, and Tawa what it learns. Before they are used."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, inductor)
    os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")
    os.environ["XDG_CACHE_HOME"] = os.path.join(folder, "cache")


@contextmanager
def tables_in(folder: str) -> Iterator[None]:
    """In the block, what Tawa learns or tunes is stored in a folder, and only what is stored there is found."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = folder
    try:
        yield
    finally:
        if before is None:
            del os.environ["XDG_CACHE_HOME"]
        else:
            os.environ["XDG_CACHE_HOME"] = before


NOTHING = "nothing is learned"


def learned(kernel: str = "") -> dict[str, Any]:
    """What launches have learned about a kernel, or all, by the tables that are found now.

    applied: whether launches of some shape class get a specialised kernel. reason: which, by shape class.
    """
    import tawa
    from tawa.runtime.tuning.store import user_store

    tawa.wait()  # tables are written in the background
    entries = [it for it in user_store().all() if it.learned and kernel in ("", it.kernel)]
    words = [
        f"{it.shape_class}: {it.words}" if kernel else f"{it.kernel}, {it.shape_class}: {it.words}" for it in entries
    ]
    return {
        "applied": any(it.plan.form != "stock" for it in entries),
        "reason": "; ".join(words) or NOTHING,
    }


def own_function(function: Callable[..., Any], name: str) -> Any:
    """The same function with a code object of its own, by which Dynamo keeps what it compiled."""
    plain: Any = function
    code = plain.__code__.replace(co_name=name)
    return types.FunctionType(code, plain.__globals__, name, plain.__defaults__, plain.__closure__)


def arguments_for(doc: str | None, names: Sequence[str], minutes: float) -> argparse.ArgumentParser:
    """The arguments that each of these benches has. names: its forms; minutes: after which it begins none."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=names, action="append", help="only this one (may be repeated)")
    parser.add_argument("--processes", type=int, default=len(names), help="how many compile side by side")
    parser.add_argument("--minutes", type=float, default=minutes, help="begin no form after this")
    parser.add_argument("--device", default="cuda", help="cpu: checks the script on small problems, without times")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser
