"""Batched products where there is no GPU: shapes, what is refused, tracing, the derivative, what is decided once."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tawa.errors import DeviceError  # noqa: E402
from tawa.ops import ArgumentError, batched_mm  # noqa: E402
from tawa.ops.calls import plain  # noqa: E402
from tawa.ops.products import batched_launch, batched_op  # noqa: E402

B, M, N, K = 3, 40, 56, 72


def meta(*shape: int, dtype: Any = torch.float16, grad: bool = False) -> Any:
    return torch.empty(shape, dtype=dtype, device="meta", requires_grad=grad)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("of_a", [1, B])
@pytest.mark.parametrize("of_b", [1, B])
def test_output_has_the_larger_batch(dtype: Any, of_a: int, of_b: int) -> None:
    c = batched_mm(meta(of_a, K, M, dtype=dtype).mT, meta(of_b, K, N, dtype=dtype))
    assert (c.shape, c.dtype) == ((max(of_a, of_b), M, N), dtype)


@pytest.mark.parametrize("of_b", [1, B])
def test_gradients_have_the_shapes_of_the_operands(of_b: int) -> None:
    a, b = meta(B, M, K, grad=True), meta(of_b, K, N, grad=True)
    batched_mm(a, b).sum().backward()
    assert (a.grad.shape, b.grad.shape) == (a.shape, b.shape)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_call_with_gradients_is_traced_without_a_break(dynamic: bool) -> None:
    compiled = torch.compile(lambda a, b: batched_mm(a, b) * 2, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    a = meta(B, M, K, grad=True)
    compiled(a, meta(B, K, N)).sum().backward()
    assert a.grad.shape == a.shape


@pytest.mark.parametrize("test", ["test_schema", "test_faketensor", "test_autograd_registration"])
def test_the_operator_passes_opcheck(test: str) -> None:
    torch.library.opcheck(batched_op._batched_mm, (meta(B, M, K, grad=True), meta(B, K, N)), test_utils=test)


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        (meta(M, K), meta(B, K, N), "a has shape"),
        (meta(B, M, K), meta(K, N), "b has shape"),
        (meta(B, M, K), meta(B, N, K), "do not share K"),
        (meta(B, M, K), meta(2, K, N), "a has 3 batches, b 2"),
        (meta(B, M, K), meta(B, K, N, dtype=torch.bfloat16), "different element types"),
        (meta(B, M, K, dtype=torch.float64), meta(B, K, N, dtype=torch.float64), "float64"),
    ],
)
def test_a_wrong_argument_is_named(a: Any, b: Any, text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        batched_mm(a, b)


def test_tensors_on_the_cpu_are_refused() -> None:
    with pytest.raises(DeviceError, match="move them to a Hopper GPU"):
        batched_mm(torch.zeros(B, M, K), torch.zeros(B, K, N))


class Kernel:
    """In place of a kernel, which is not launched. seen: descriptors and constants of each launch."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def run(self, *arguments: Any, **constants: Any) -> None:
        self.seen.append((*arguments[:3], constants))


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """Tensors of the CPU are taken for those of an H100."""
    kernel = Kernel()
    for module, name, value in (
        (batched_op, "check_devices", lambda named: None),
        (plain, "other_keys", ~plain._keys_of("CPU")),
        (batched_launch, "check_capability", lambda a: None),
        (batched_launch, "is_hopper", lambda device: True),
        (batched_launch, "batched_mm", kernel),
        (batched_op, "_calls", plain.KnownCalls()),
    ):
        monkeypatch.setattr(module, name, value)
    return kernel


@pytest.mark.parametrize("transposed_a", [False, True])
@pytest.mark.parametrize("transposed_b", [False, True])
def test_transposed_operands_are_read_in_place(kernel: Kernel, transposed_a: bool, transposed_b: bool) -> None:
    a = torch.zeros(B, K, M).half().mT if transposed_a else torch.zeros(B, M, K).half()
    b = torch.zeros(B, N, K).half().mT if transposed_b else torch.zeros(B, K, N).half()
    batched_mm(a, b)
    of_a, of_b, _, constants = kernel.seen[-1]
    assert (of_a.base.data_ptr(), of_b.base.data_ptr()) == (a.data_ptr(), b.data_ptr())
    assert (constants["A_K"], constants["B_K"]) == (not transposed_a, transposed_b)


def test_a_shared_matrix_is_not_copied(kernel: Kernel) -> None:
    a, b = torch.zeros(B, M, K).half(), torch.zeros(1, K, N).half()
    for _ in range(2):
        batched_mm(a, b)
        _, of_b, _, constants = kernel.seen[-1]
        assert of_b.base.data_ptr() == b.data_ptr() and of_b.shape == [1, K, N] and constants["B_ONE"]


def test_operands_at_odd_addresses_are_copied(kernel: Kernel) -> None:
    whole = torch.zeros(B * M * K + 1).half()
    b = torch.zeros(B, K, N).half()
    batched_mm(whole[:-1].view(B, M, K), b)
    assert kernel.seen[-1][0].base.data_ptr() == whole.data_ptr()
    batched_mm(whole[1:].view(B, M, K), b)
    assert kernel.seen[-1][0].base.data_ptr() % 16 == 0


def test_float32_is_read_with_k_innermost(kernel: Kernel) -> None:
    batched_mm(torch.zeros(B, K, M).mT, torch.zeros(B, K, N))
    of_a, of_b, _, constants = kernel.seen[-1]
    assert constants["A_K"] and constants["B_K"]
    assert (of_a.shape, of_b.shape) == ([B, M, K], [B, N, K])


@pytest.mark.parametrize("shape", [(0, M, N, K), (B, 0, N, K), (B, M, 0, K), (B, M, N, 0)])
def test_empty_products_launch_nothing(kernel: Kernel, shape: tuple[int, ...]) -> None:
    batches, m, n, k = shape
    c = batched_mm(torch.zeros(batches, m, k), torch.zeros(batches, k, n))
    assert torch.equal(c, torch.zeros(batches, m, n))
    assert not kernel.seen
