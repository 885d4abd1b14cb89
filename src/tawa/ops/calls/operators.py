"""Operators of `torch.library`, as all families define them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Derivative:
    """The derivative of an operator. keep: saves what `backward` needs, as ``setup_context`` of PyTorch."""

    backward: Callable[..., tuple[Any, ...]]
    keep: Callable[..., None]

    def of(self, run: Callable[..., Any], tensors: tuple[Any, ...], *rest: Any) -> Any:
        """``run(*tensors, *rest)``, without the dispatcher, with the gradients of the operator.

        These are the operator's inputs, and those with a gradient are among the tensors.
        """
        return _apply(*tensors, (self, run, rest))


class _Derived(torch.autograd.Function):
    """A plain call whose gradient is wanted (`tawa.ops.calls.plain`). The context says so: it is `plain`."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Any:
        *tensors, (ctx.rule, run, rest) = given
        ctx.plain, inputs = True, (*tensors, *rest)
        output = run(*inputs)
        ctx.rule.keep(ctx, inputs, output)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        found = ctx.rule.backward(ctx, *gradients)
        return (*found[: len(ctx.needs_input_grad) - 1], None)


_function: Any = torch.autograd.Function
_apply: Any = super(_function, _Derived).apply
"""Without the checks for transforms (`torch.func`): no call under one is plain."""


def derived(name: str, backward: Callable[..., Any], keep: Callable[..., None]) -> Derivative:
    """Registers the derivative of an operator, and returns it."""
    torch.library.register_autograd(f"tawa::{name}", backward, setup_context=keep, lib=library)
    return Derivative(backward, keep)


def not_derived(name: str, public: str) -> None:
    """Registers that an operator has no derivative. public: the function that it is the derivative of."""

    def derive(ctx: Any, *gradients: Any) -> None:
        raise RuntimeError(f"tawa.ops.{public}: there are no second derivatives; cure: create_graph=False")

    torch.library.register_autograd(f"tawa::{name}", derive, lib=library)
