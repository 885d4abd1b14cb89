"""The arguments of a noted launch are made anew as they lay in memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tawa.runtime.tuning.collect import NotTunable, _Memory
from tawa.runtime.tuning.jobs import Job
from tawa.runtime.tuning.replay import arguments_on_gpu

torch: Any = pytest.importorskip("torch")


def again(kinds: tuple[Any, ...], args: tuple[Any, ...]) -> list[Any]:
    """Arguments as they are made anew, on the CPU."""
    memory = _Memory()
    described = tuple(memory.argument(kind, arg) for kind, arg in zip(kinds, args, strict=True))
    job = Job("k", "key", "class", {}, {}, {}, None, (), (1, 1, 1), described, memory.storages(), "", memory.contents())
    return arguments_on_gpu(job, "cpu")


def test_views_of_one_tensor_lie_in_one_tensor_again() -> None:
    packed = torch.randn(3, 16, 8, dtype=torch.float16)
    q, k = packed[0], packed[1].t()
    new_q, new_k = again(("*fp16", "*fp16"), (q, k))
    assert (new_k.shape, new_k.stride(), new_k.dtype) == (k.shape, k.stride(), k.dtype)
    assert new_k.data_ptr() - new_q.data_ptr() == k.data_ptr() - q.data_ptr()
    assert new_q.float().std() > 0.5


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "bfloat16", "float64", "uint8", "bool"])
def test_other_types_are_filled_at_random(dtype: str) -> None:
    (made,) = again(("*u8",), (torch.zeros(64).to(getattr(torch, dtype)),))
    assert made.dtype == getattr(torch, dtype) and made.float().unique().numel() > 1


def test_integers_that_may_be_addresses_keep_their_contents() -> None:
    table = torch.arange(12, dtype=torch.int32).view(3, 4)
    (made,) = again(("*i32",), (table[1:],))
    assert made.tolist() == table[1:].tolist()


def test_descriptors_tuples_and_numbers_come_back() -> None:
    pytest.importorskip("triton")
    from triton.tools.tensor_descriptor import TensorDescriptor

    descriptor = TensorDescriptor.from_tensor(torch.randn(64, 64, dtype=torch.float16), [16, 32])
    kinds = ("tensordesc<fp16[16,32]>", ("i32", "constexpr"), "fp32")
    made, pair, number = again(kinds, (descriptor, (7, None), 0.5))
    assert (made.block_shape, made.strides, made.padding) == ([16, 32], [64, 1], "zero")
    assert (pair, number) == ((7, None), 0.5)


def test_integers_too_large_to_keep_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tawa.runtime.tuning.collect.MOST_CONTENTS", 8)
    with pytest.raises(NotTunable, match="integer tensor of 48 bytes"):
        again(("*i32",), (torch.zeros(12, dtype=torch.int32),))


def test_an_address_is_refused() -> None:
    with pytest.raises(NotTunable, match="cure: pass tensors"):
        again(("*fp16",), (SimpleNamespace(data_ptr=lambda: 4096),))
