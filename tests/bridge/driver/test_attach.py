"""Attaching to Triton and detaching leave no trace."""

from __future__ import annotations

from typing import Any

import pytest
import triton
import triton.compiler.compiler
import triton.runtime.autotuner
import triton.runtime.jit
from triton import knobs

from tawa.bridge.driver.attach import Attachment, attached

pytestmark = pytest.mark.contract


def test_detaching_restores_every_slot() -> None:
    def slots() -> list[Any]:
        return [
            triton.compiler.compiler.get_cache_key,
            triton.runtime.jit.get_cache_key,
            triton.runtime.jit.compute_cache_key,
            triton.AsyncCompileMode.submit,
            triton.runtime.autotuner.get_cache_invalidating_env_vars,
            triton.runtime.jit.JITFunction._do_compile,
            triton.compiler.compiler.CompiledKernel.__init__,
            knobs.runtime.add_stages_inspection_hook,
            "add_stages_inspection_hook" in vars(knobs.runtime),
        ]

    before = slots()
    with attached():
        assert all(now is not then for now, then in zip(slots()[:8], before[:8], strict=True))
        with attached():
            pass
        assert all(now is not then for now, then in zip(slots()[:8], before[:8], strict=True))
    assert all(now is then for now, then in zip(slots(), before, strict=True))


def test_attachments_are_counted() -> None:
    attachment = Attachment()
    original = triton.runtime.jit.compute_cache_key
    attachment.attach()
    attachment.attach()
    attachment.detach()
    assert attachment.count == 1 and triton.runtime.jit.compute_cache_key is not original
    attachment.detach()
    assert attachment.count == 0 and triton.runtime.jit.compute_cache_key is original
    with pytest.raises(RuntimeError, match="detach without attach"):
        attachment.detach()


def test_a_slot_that_someone_else_has_taken_since_stays_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    with attached():
        ours = triton.runtime.jit.compute_cache_key
        theirs = lambda *args: ours(*args)  # noqa: E731
        monkeypatch.setattr(triton.runtime.jit, "compute_cache_key", theirs)
    assert triton.runtime.jit.compute_cache_key is theirs
    # monkeypatch puts our wrapper back, which is idle without a request.


def test_a_failure_while_attaching_restores_what_was_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: object) -> None:
        raise ValueError("no class")

    original = triton.runtime.jit.compute_cache_key
    monkeypatch.setattr("tawa.bridge.driver.attach.kernel_class", fails)
    attachment = Attachment()
    with pytest.raises(ValueError, match="no class"):
        attachment.attach()
    assert attachment.count == 0 and triton.runtime.jit.compute_cache_key is original
