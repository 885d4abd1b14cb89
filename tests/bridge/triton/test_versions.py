"""Versions of Triton: which are tested, and what happens on another one."""

from __future__ import annotations

import pytest
from triton.backends.compiler import Language

from tawa.bridge.driver.hook import StageHook
from tawa.bridge.driver.request import Request, activate
from tawa.bridge.triton import versions
from tawa.errors import UnsupportedKernel
from tawa.supported import TRITON, parse_version
from tests.bridge.driver.test_hook import PINNED, STAGES


def test_an_untested_triton_warns_once_and_stays_stock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "triton_version", lambda: (3, 12, 0))
    versions.warn_untested.cache_clear()
    copy = dict(STAGES)
    with activate(Request()):
        with pytest.warns(RuntimeWarning, match=r"Triton 3\.12\.0 is outside the tested range 3\.6 to 3\.9"):
            StageHook(None)(None, copy, None, Language.TRITON, 90)
        StageHook(None)(None, copy, None, Language.TRITON, 90)  # a second warning would be an error
    assert copy == STAGES
    with activate(PINNED), pytest.raises(UnsupportedKernel, match="outside the tested range"):
        StageHook(None)(None, copy, None, Language.TRITON, 90)
    versions.warn_untested.cache_clear()


@pytest.mark.parametrize(
    "text, version", [("3.9.0", (3, 9, 0)), ("3.6.0+git12ab", (3, 6, 0)), ("3.10", (3, 10, 0)), ("main", (0, 0, 0))]
)
def test_versions_are_read_from_text(text: str, version: tuple[int, int, int]) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(
    "version, tested", [((3, 5, 1), False), ((3, 6, 0), True), ((3, 9, 4), True), ((3, 10, 0), False)]
)
def test_the_tested_range_includes_both_ends(version: tuple[int, int, int], tested: bool) -> None:
    assert (version in TRITON) == tested
