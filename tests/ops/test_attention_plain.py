"""Calls of the attention operator without PyTorch's dispatcher: when they are made, and that they compute the same.

On the CPU, with kernels that compute by PyTorch what they are given.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from tawa.ops import attention  # noqa: E402
from tawa.ops.attention_ops import checks as checks  # noqa: E402
from tawa.ops.attention_ops import launch as launching  # noqa: E402
from tawa.ops.attention_ops import op as operators  # noqa: E402
from tawa.ops.attention_ops import tiles as tiles  # noqa: E402
from tawa.ops.calls import plain  # noqa: E402


class Kernel:
    """In place of the forward kernel: what it would write, from its descriptors. runs: how often it was launched."""

    def __init__(self) -> None:
        self.runs = 0

    def run(self, q: Any, k: Any, v: Any, o: Any, lse: Any, alibi: Any, *numbers: Any, **options: Any) -> None:
        self.runs += 1
        for made in (q, k, v, o):
            assert list(made.base.shape) == made.shape
            real = [size for size, length in zip(made.strides, made.shape, strict=True) if length > 1]
            assert real == [size for size, n in zip(made.base.stride(), made.base.shape, strict=True) if n > 1]
        scale, softcap, *strides = numbers[-8:]
        assert softcap == 1.0 and strides == [0] * 6
        scores = scale * q.base.float() @ k.base.float().mT
        if options["CAUSAL"]:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))
        o.base.copy_(scores.softmax(3) @ v.base.float())
        lse.copy_(scores.logsumexp(3) / launching.LN_2)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    """Tensors of the CPU are taken for those of an H100."""
    made = Kernel()
    for module, name, value in (
        (checks, "check_devices", lambda named: None),
        (plain, "other_keys", ~plain._keys_of("CPU")),
        (launching, "tiles_for", lambda device: tiles.HOPPER),
        (launching, "multiprocessors", lambda device: 132),
        (launching, "attention_persistent", made),
        (launching, "attention_two_loops", made),
        (operators, "_calls", plain.KnownCalls()),
        (launching, "forwards", plain.KnownCalls()),
    ):
        monkeypatch.setattr(module, name, value)
    library = torch.library.Library("tawa", "IMPL")
    library.impl("attention", operators._run_forward, "CPU")
    library.impl("attention_backward", operators._run_backward, "CPU")
    yield made
    library._destroy()


class Seen(TorchDispatchMode):
    """The operators that the dispatcher ran."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def triple(grad: bool = False, heads: int = 2) -> list[Any]:
    torch.manual_seed(0)
    return [torch.randn(2, heads, 48, 64).half().requires_grad_(grad) for _ in range(3)]


def test_a_call_without_the_dispatcher_computes_the_same(kernel: Kernel) -> None:
    shapes = triple(), [x.transpose(1, 2).contiguous().transpose(1, 2) for x in triple()], triple(heads=1)
    for tensors in shapes:
        for options in ({}, {"causal": True}, {"scale": 0.3}):
            with Seen() as seen:
                wanted = attention(*tensors, return_lse=True, **options)
            assert "tawa.attention.default" in seen.names
            for _ in range(2):
                found = attention(*tensors, return_lse=True, **options)
                assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))
                assert found[0].stride() == wanted[0].stride()


def test_tensors_of_a_known_shape_are_not_checked_again(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    attention(*triple())
    monkeypatch.setattr(operators, "check_tensors", lambda *_: 1 / 0)
    monkeypatch.setattr(launching, "Forward", None)
    attention(*triple())
    assert kernel.runs == 2
    with pytest.raises(ZeroDivisionError):
        attention(*triple(), scale=0.3)
    with pytest.raises(ZeroDivisionError):
        attention(*triple(heads=3))


def test_a_tensor_at_another_alignment_is_copied(kernel: Kernel) -> None:
    q, k, v = triple()
    wanted = attention(q, k, v)
    for number in range(3):
        moved = torch.empty(q.numel() + 1, dtype=q.dtype)[1:].view(q.shape).copy_((q, k, v)[number])
        tensors = [moved if at == number else x for at, x in enumerate((q, k, v))]
        assert tensors[number].stride() == q.stride() and tensors[number].data_ptr() % 16
        assert torch.equal(attention(*tensors), wanted)


def test_gradients_are_those_of_the_operator(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def backward(do: Any, dlse: Any, q: Any, k: Any, v: Any, o: Any, lse: Any, *options: Any) -> tuple[Any, ...]:
        given.append((do, dlse, o.detach(), lse.detach(), options))
        return torch.ones_like(q), 2 * torch.ones_like(k), 3 * torch.ones_like(v)

    monkeypatch.setattr(operators, "run_backward", backward)
    for with_lse in (False, True):
        for mode in (Seen, torch.enable_grad):
            leaves = triple(grad=True)
            with mode():
                o, lse = attention(*leaves, causal=True, return_lse=True)
            assert o.requires_grad
            (o.float().sum() + (lse.sum() if with_lse else 0.0)).backward()
            assert [x.grad.unique().tolist() for x in leaves] == [[1], [2], [3]]
        (_, *by_operator), (_, *direct) = given[-2:]
        assert str(by_operator) == str(direct)
        assert (direct[0] is not None) == with_lse
    with torch.no_grad():
        assert not attention(*triple(grad=True)).requires_grad


@pytest.mark.parametrize("mode", [Seen, torch.enable_grad])
def test_second_derivatives_are_refused(kernel: Kernel, monkeypatch: pytest.MonkeyPatch, mode: Any) -> None:
    monkeypatch.setattr(operators, "run_backward", lambda do, dlse, q, k, v, *_: (q * 1, k * 1, v * 1))
    leaves = triple(grad=True)
    with mode():
        o = attention(*leaves)
    first = torch.autograd.grad(o.float().sum(), leaves[0], create_graph=True)[0]
    with pytest.raises(RuntimeError, match="no second derivatives"):
        first.float().sum().backward()


def test_a_tensor_given_for_a_number_is_not_compared_by_identity(kernel: Kernel) -> None:
    scale = torch.tensor(0.5)
    q, k, v = triple()
    before = attention(q, k, v, scale=scale)
    scale.fill_(0.25)
    assert torch.equal(attention(q, k, v, scale=scale), attention(q, k, v, scale=0.25))
    assert torch.equal(before, attention(q, k, v, scale=0.5))


# --- what is plain ---


class Overriding(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(function, types, args, kwargs or {})


def test_ordinary_tensors_are_plain(kernel: Kernel) -> None:
    assert plain.is_plain(*triple()) and plain.is_plain(*triple(grad=True))
    assert plain.is_plain(*(torch.nn.Parameter(x) for x in triple()))
    with torch.no_grad(), torch.autocast("cpu"):
        assert plain.is_plain(*triple())
    with torch.inference_mode():
        assert plain.is_plain(*triple()) and not plain.autograd_is_on()
    assert plain.autograd_is_on()


def test_what_the_dispatcher_sees_to_is_not_plain(kernel: Kernel) -> None:
    q, k, v = triple()
    for other in (q.to("meta"), q.as_subclass(Overriding), torch._neg_view(q), q.to_sparse()):
        assert not plain.is_plain(other, k, v) and not plain.is_plain(q, k, other)
    with Seen():
        assert not plain.is_plain(q, k, v)
    with torch.device("cpu"):
        assert not plain.is_plain(q, k, v)
    with torch.autograd.forward_ad.dual_level():
        assert not plain.is_plain(q, k, v)
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        assert not plain.is_plain(q, k, v)
    inside: list[bool] = []
    look = lambda x: (inside.append(plain.is_plain(x, k, v)), x)[1]  # noqa: E731
    torch.func.vmap(look)(torch.stack([q, q]))
    torch.func.grad(lambda x: look(x).float().sum())(q)
    torch.jit.trace(look, q, check_trace=False)
    torch.compile(look, backend="eager")(q)
    assert inside and not any(inside)


def test_on_a_gpu_tensors_of_the_cpu_are_not_plain() -> None:
    assert not plain.is_plain(*triple())
