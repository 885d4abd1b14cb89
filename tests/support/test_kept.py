"""Texts that are kept are those of their keys, and fronts are made again when anything that decides them changes."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl

from tawa.bridge.triton.signature import parse_signature
from tests.support import fronts
from tests.support import kept as store
from tests.support.fronts import Front, front

FACTOR = tl.constexpr(2)


@triton.jit
def scaled(x):
    return x * FACTOR


@triton.jit
def kernel(out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, scaled(at), mask=at < n)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of what is made; nothing is there at first."""
    keys: list[str] = []

    def kept(key: tuple[str, ...], make: Any, ours: bool = False) -> str:
        def noted() -> str:
            keys.append(key[0])
            return make()

        return store.kept(key, noted, ours, tmp_path)

    monkeypatch.setattr(fronts, "kept", kept)
    return keys


def fronted(block: int = 64, types: str = "out=*i32, n=i32", **options: Any) -> Front:
    return front(kernel, parse_signature(types, {"BLOCK": block}, kernel.arg_names), **options)


def test_a_front_is_made_once(made: list[str]) -> None:
    first, again = fronted(), fronted()
    assert first.ttir == again.ttir and first.whole_text() == again.whole_text()
    assert made == ["ttir", "ttgir"]
    assert first.options == again.options and first.context is not again.context


def test_another_constant_type_option_or_program_is_another_front(made: list[str]) -> None:
    found = [fronted(), fronted(128), fronted(types="out=*i32:16, n=i32"), fronted(num_warps=4)]
    assert made == ["ttir"] * 4 and len({it.key for it in found}) == 4
    assert len({it.whole_text() for it in found}) == 4 and made[4:] == ["ttgir"] * 4
    changed = replace(found[0], ttir=found[0].ttir.replace("dense<2>", "dense<3>"))
    assert changed.ttir != found[0].ttir and changed.whole_text() != found[0].whole_text()


def test_a_front_whose_global_variable_has_changed_is_made_anew(
    made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fronted()
    monkeypatch.setitem(globals(), "FACTOR", tl.constexpr(3))
    after = fronted()
    assert ("dense<2>" in before.ttir, "dense<3>" in after.ttir) == (True, True)
    after.whole_text()
    assert made == ["ttir"] and after.key == ()


def test_a_text_of_ours_is_kept_by_the_sources_that_made_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kept(text: str) -> str:
        return store.kept(("key",), lambda: text, True, tmp_path)

    assert (kept("first"), kept("second")) == ("first", "first")
    monkeypatch.setattr(store, "AT_START", "another source")
    assert (kept("second"), kept("third")) == ("second", "third")  # changed while this runs: not kept
    assert len(list(tmp_path.iterdir())) == 1


def test_the_hash_of_sources_has_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    first = store.sources(tmp_path)
    (tmp_path / "a.py").write_text("x = 2\n")
    second = store.sources(tmp_path)
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert len({first, second, store.sources(tmp_path)}) == 3


def test_what_nobody_has_used_for_a_day_is_forgotten(tmp_path: Path) -> None:
    def kept(key: str, text: str) -> str:
        return store.kept((key,), lambda: text, folder=tmp_path)

    kept("old", "first")
    (old,) = tmp_path.iterdir()
    kept("used", "first")
    for file in tmp_path.iterdir():
        os.utime(file, (0, 0))
    kept("used", "second")
    store.forget(tmp_path)
    assert not old.exists() and (kept("used", "third"), kept("old", "third")) == ("first", "third")


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert [store.kept(("key",), lambda text=text: text, folder=tmp_path / "file") for text in "ab"] == ["a", "b"]


def test_what_is_not_a_kept_text_is_made_anew(tmp_path: Path) -> None:
    store.kept(("key",), lambda: "first", folder=tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_text("another format")
    assert [store.kept(("key",), lambda text=text: text, folder=tmp_path) for text in ("second", "third")] == [
        "second"
    ] * 2
