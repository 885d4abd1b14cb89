"""Products without PyTorch's dispatcher: calls that want gradients have those of the operators.

On the CPU, with kernels that compute by PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tawa.ops import batched_mm, grouped_mm, linear, matmul  # noqa: E402
from tawa.ops.calls import plain  # noqa: E402
from tawa.ops.grouped import op as grouped  # noqa: E402
from tawa.ops.products import batched_op as batched  # noqa: E402
from tawa.ops.products import matmul_checks as checks  # noqa: E402
from tawa.ops.products import matmul_op as products  # noqa: E402


def _product(a: Any, b: Any, bias: Any, residual: Any, activation: str, gated: bool, kept: bool = False) -> Any:
    """In place of the launch for such matrices, of which it knows all but the addresses."""
    shape = b.shape

    def run(a: Any, b: Any, bias: Any = None, residual: Any = None, sums: Any = None) -> Any:
        z = a @ (b if b.shape == shape else b.mT)
        z = z if bias is None else z + bias
        assert (sums is not None) is kept
        if sums is not None:
            sums.copy_(z)
        gate, *other = z.chunk(2, -1) if gated else (z,)
        made = products._activated(gate, activation)
        made = made * other[0] if gated else made
        return made if residual is None else made + residual

    return run


def _gated_gradients(gradient: Any, sums: Any, activation: str) -> Any:
    with torch.enable_grad():
        leaf = sums.detach().requires_grad_()
        gate, other = leaf.chunk(2, -1)
        return torch.autograd.grad(products._activated(gate, activation) * other, leaf, gradient)[0]


def _refused(*inputs: Any) -> Any:
    raise AssertionError("the dispatcher was asked")


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tensors of the CPU are taken for those of a GPU, and no operator may be called."""

    def of_groups(a: Any, b: Any, groups: int) -> Any:
        return lambda a, b, ends: _grouped(a, b, ends)

    for module, name, value in (
        (plain, "other_keys", ~plain._keys_of("CPU")),
        (checks, "check_devices", lambda named: None),
        (batched, "check_devices", lambda named: None),
        (grouped, "check_devices", lambda named: None),
        (products, "known_product", _product),
        (products, "gated_gradients", _gated_gradients),
        (products, "_products", plain.KnownCalls()),
        (products, "_calls", plain.KnownCalls()),
        (batched, "BatchedMM", lambda a, b: torch.matmul),
        (batched, "_calls", plain.KnownCalls()),
        (grouped, "Call", of_groups),
        (grouped, "_calls", plain.KnownCalls()),
        *((products, name, _refused) for name in ("_mm", "_linear", "_linear_kept", "_gated_gradients")),
        (batched, "_batched_mm", _refused),
        (grouped, "_grouped_mm", _refused),
    ):
        monkeypatch.setattr(module, name, value)
    yield


def _grouped(a: Any, b: Any, ends: Any) -> Any:
    pairs = list(pairwise([0, *ends.tolist()]))
    if b.dim() == 3:
        return torch.cat([a[first:end] @ b[group] for group, (first, end) in enumerate(pairs)])
    if a.dim() == 3:
        return _grouped(b.mT, a.mT, ends).mT
    return torch.stack([a[:, first:end] @ b[first:end] for first, end in pairs])


def _linear(activation: str, gated: bool, more: bool) -> tuple[Callable[..., Any], Callable[..., Any], list[Any]]:
    shapes = [(3, 8, 32), (64, 32), *([(64,), (3, 8, 32 if gated else 64)] if more else [])]

    def expected(x: Any, weight: Any, bias: Any = None, residual: Any = None) -> Any:
        return products._in_pytorch(x, weight, bias, residual, activation, gated, None)

    def ours(x: Any, weight: Any, bias: Any = None, residual: Any = None) -> Any:
        return linear(x, weight, bias, residual=residual, activation=activation, gated=gated)

    return ours, expected, shapes


ENDS = torch.tensor([3, 3, 8], dtype=torch.int32)
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[Any]]] = {
    "matmul": (matmul, torch.matmul, [(8, 32), (32, 16)]),
    "matmul, rows of rows": (matmul, torch.matmul, [(2, 8, 32), (32, 16)]),
    "linear": _linear("none", gated=False, more=False),
    "linear, bias and residual": _linear("none", gated=False, more=True),
    "linear, silu": _linear("silu", gated=False, more=True),
    "linear, gated": _linear("silu", gated=True, more=True),
    "batched_mm": (batched_mm, torch.bmm, [(2, 8, 32), (2, 32, 16)]),
    "batched_mm, one matrix": (batched_mm, torch.matmul, [(2, 8, 32), (1, 32, 16)]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_plain_call_has_gradients_without_the_dispatcher(case: str) -> None:
    ours, expected, shapes = CASES[case]
    generator = torch.Generator().manual_seed(0)
    leaves = [torch.randn(shape, generator=generator, requires_grad=True) for shape in shapes]
    wanted = expected(*leaves)
    gradient = torch.randn(wanted.shape, generator=generator)
    made = ours(*leaves)
    assert torch.allclose(made, wanted, atol=1e-5) and made.requires_grad
    exact = torch.autograd.grad(wanted, leaves, gradient)
    for one, other in zip(torch.autograd.grad(made, leaves, gradient), exact, strict=True):
        assert one.shape == other.shape and torch.allclose(one, other, atol=1e-4)
    with torch.no_grad():
        assert not ours(*leaves).requires_grad


@pytest.mark.parametrize("shapes", [((8, 32), (3, 32, 16)), ((16, 8), (8, 24))])
def test_groups_have_gradients_without_the_dispatcher(shapes: tuple[tuple[int, ...], ...]) -> None:
    leaves = [torch.randn(shape).to(torch.bfloat16).requires_grad_() for shape in shapes]
    made = grouped_mm(*leaves, ENDS)
    gradient = torch.randn(made.shape).to(torch.bfloat16)
    exact = torch.autograd.grad(_grouped(*leaves, ENDS), leaves, gradient)
    for one, other in zip(torch.autograd.grad(made, leaves, gradient), exact, strict=True):
        assert torch.allclose(one, other, atol=0.1, rtol=0.05)


def test_a_second_derivative_is_that_of_the_product() -> None:
    a, b = torch.randn(8, 32, requires_grad=True), torch.randn(32, 16, requires_grad=True)
    for product in (matmul, torch.matmul):
        (of_a,) = torch.autograd.grad(product(a, b).square().sum(), a, create_graph=True)
        (second,) = torch.autograd.grad(of_a.square().sum(), b)
        if product is matmul:
            found = second
    assert torch.allclose(found, second, rtol=1e-4, atol=1e-2)
