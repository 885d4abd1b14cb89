"""What the benches of `tawa verify` share: the verdicts, a limit of processor time, and the table of both kinds."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

VERDICTS = ("proved", "checked", "refuted", "unknown", "no answer")


class _TooLong(BaseException):
    """The check takes too much processor time."""


def _give_up(*_: object) -> None:
    raise _TooLong


def answer_of(check: Callable[[], Any], most_s: float) -> tuple[str, str]:
    """The verdict of a check in a word, and what it says; "no answer" if it fails, or takes more processor time."""
    before = signal.signal(signal.SIGPROF, _give_up)
    signal.setitimer(signal.ITIMER_PROF, most_s)
    try:
        found = check()
        return type(found).__name__.lower(), str(found)
    except (Exception, _TooLong) as error:
        return "no answer", f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def table(what: str, found: Sequence[tuple[str, bool, str]]) -> Iterator[str]:
    """Programs by verdicts, faulty ones and then right ones. found: of each its kind, whether it is right, the verdict.

    what: the heading of the kinds.
    """
    yield f"{'':16}{'faulty':>50}{'right':>50}"
    yield f"{what:16}" + "".join(f"{name:>10}" for _ in range(2) for name in VERDICTS)
    for name in (*dict.fromkeys(kind for kind, _, _ in found), "all"):
        counts = Counter((right, verdict) for kind, right, verdict in found if name in (kind, "all"))
        yield f"{name:16}" + "".join(f"{counts[right, it]:10}" for right in (False, True) for it in VERDICTS)


__all__ = ["VERDICTS", "answer_of", "table"]
