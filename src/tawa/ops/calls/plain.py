"""Whether PyTorch's dispatcher would do anything in a call of an operator but run its kernel on a CUDA device.

Tracing, transforms (vmap, grad), dispatch modes, fake tensors, subclasses and lazy views (conjugate, negative) all work
by the dispatcher. For a call without any of them the operator's function can be called at once: on the way through the
dispatcher and the layers of `torch.library` a call takes several times as long as a launch. Only autograd is left,
which the caller has to look after.

Everything read here is internal to PyTorch. On a release that lacks a part of it no call is plain.
"""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch.autograd import forward_ad

_C: Any = torch._C
Call = TypeVar("Call")
_is_compiling: Any = torch.compiler.is_compiling


def _keys_of(backend: str) -> int:
    """The dispatch keys of an ordinary tensor, as bits. backend: "CUDA", "CPU"."""
    key, keys = _C.DispatchKey, _C.DispatchKeySet
    names = (backend, f"Autograd{backend}", f"Autocast{backend}", "ADInplaceOrView")
    bits = 0
    for name in names:
        bits |= keys(getattr(key, name)).raw_repr()
    return bits


try:
    other_keys = ~_keys_of("CUDA")
    _keys: Any = _C._dispatch_keys
    _function_is_overridden: Any = torch.overrides.has_torch_function_variadic
    _modes, _transforms, _is_tracing = _C._len_torch_dispatch_stack, _C._are_functorch_transforms_active, _C._is_tracing
    _is_excluded, _AUTOGRAD = _C._dispatch_tls_is_dispatch_key_excluded, _C.DispatchKey.AutogradFunctionality
    _known = isinstance(forward_ad.__dict__["_current_level"], int)
except (AttributeError, KeyError, TypeError):  # another release
    other_keys, _known = -1, False


def is_plain(*tensors: torch.Tensor) -> bool:
    """Whether the dispatcher would only run the kernel on these tensors, below autograd."""
    if not _known or _is_compiling() or _function_is_overridden(*tensors):
        return False
    bits = 0
    for tensor in tensors:
        bits |= _keys(tensor).raw_repr()
    return (
        not bits & other_keys
        and not _modes()
        and not _transforms()
        and not _is_tracing()
        and forward_ad._current_level < 0
    )


class KnownCalls(dict[Any, Call]):
    """The calls that were made, by everything that is checked or decided; a limited number."""

    most = 1024

    def keep(self, known: Any, call: Call) -> Call:
        """Adds a call and returns it."""
        if len(self) >= self.most:
            self.clear()
        self[known] = call
        return call


VALUES = frozenset((bool, int, float, type(None)))
"""Types of options that compare by their value, which does not change."""


def autograd_is_on() -> bool:
    """Whether autograd sees a plain call: not inside of another operator, nor in inference mode."""
    return not _is_excluded(_AUTOGRAD)


def records(*tensors: torch.Tensor) -> bool:
    """Whether a call on these tensors has a gradient."""
    return torch.is_grad_enabled() and any(it.requires_grad for it in tensors)


def wants_gradient(*tensors: torch.Tensor) -> bool:
    """Whether autograd takes part in a plain call."""
    return records(*tensors) and autograd_is_on()
