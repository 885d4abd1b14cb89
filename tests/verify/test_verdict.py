"""A verdict is one of four, and a witness names a kind of fault that some check looks for."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import get_args

import pytest

from tawa.verify import verdict
from tawa.verify.verdict import Checked, FaultKind, Proved, Refuted, Unknown, Verdict, Witness

ROOM = Path(verdict.__file__).parent


@pytest.mark.parametrize("kind", get_args(FaultKind))
def test_every_kind_of_fault_is_found_by_some_check(kind: str) -> None:
    checks = [path for path in ROOM.rglob("*.py") if path.name != "verdict.py"]
    assert any(f'"{kind}"' in path.read_text(encoding="utf-8") for path in checks)


def test_what_is_not_known_is_neither_proved_nor_refuted() -> None:
    assert set(get_args(Verdict)) == {Proved, Checked, Refuted, Unknown}
    assert not isinstance(Unknown("who knows"), Proved | Checked | Refuted)


def test_what_was_only_tried_is_not_proved() -> None:
    assert not isinstance(Checked("up to 3 trips", "a loop"), Proved)


def test_a_verdict_cannot_be_changed_behind_the_check() -> None:
    witness = Witness("deadlock", "nobody goes on", {"n": 3}, ())
    assert Refuted(witness) == Refuted(Witness("deadlock", "nobody goes on", {"n": 3}, ()))
    with pytest.raises(FrozenInstanceError):
        Refuted(witness).witness = witness  # type: ignore[misc]
