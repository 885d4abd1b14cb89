"""Operators of `torch.library`, as all families define them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

library = torch.library.Library("tawa", "FRAGMENT")
"""The namespace ``torch.ops.tawa``."""


def defined(schema: str, run: Callable[..., Any], fake: Callable[..., Any]) -> Any:
    """Defines an operator, its kernel on CUDA devices, and its fake implementation; returns its overload.

    `torch.library.custom_op` would put layers of Python around each call. The derivative is registered separately, with
    `derived`.
    """
    library.define(schema, tags=torch.Tag.pt2_compliant_tag)
    name = schema.partition("(")[0]
    library.impl(name, run, "CUDA")
    torch.library.register_fake(f"tawa::{name}", fake, lib=library)
    return getattr(torch.ops.tawa, name).default


def derived(name: str, backward: Callable[..., Any], keep: Callable[..., Any] | None = None) -> None:
    """Registers the derivative of an operator. keep: saves what it needs, as ``setup_context`` of PyTorch."""
    if keep is None:
        torch.library.register_autograd(f"tawa::{name}", backward, lib=library)
    else:
        torch.library.register_autograd(f"tawa::{name}", backward, setup_context=keep, lib=library)
