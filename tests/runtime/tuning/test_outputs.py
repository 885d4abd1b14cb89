"""Outputs of Plans are compared with those of the first, and the user's tensors are as before."""

from __future__ import annotations

from typing import Any

import pytest

from tawa.runtime.tuning.outputs import may_repeat, output_check, tensors_of

torch: Any = pytest.importorskip("torch")
TYPES = ("*fp16", "i32", "tensordesc<fp16[64,64]>", ("*fp32", "constexpr"))


class Descriptor:
    def __init__(self, base: Any) -> None:
        self.base = base


def tensors() -> tuple[Any, Any, Any]:
    return torch.zeros(8, dtype=torch.float16), torch.zeros(4, 4, dtype=torch.float16), torch.ones(3)


def test_tensors_have_the_numbers_of_the_functions_arguments() -> None:
    a, b, c = tensors()
    found = tensors_of(TYPES, (a, 7, Descriptor(b), (c, None)))
    assert {index: it.shape for index, it in found.items()} == {0: a.shape, 2: b.shape, 7: c.shape}


def check(out: Any, poison: bool = True) -> Any:
    found = output_check(("*fp16",), (out,), (0,), poison)
    assert found is not None
    return found


def test_equal_results_pass_and_the_tensor_gets_back_what_it_held() -> None:
    out = torch.full((4, 6), 5.0, dtype=torch.float16)[:, ::2]
    checked = check(out)
    for _ in range(2):
        assert checked.differs(lambda: out.fill_(2.0)) == ""
    assert out.eq(5.0).all()


def test_wrong_results_are_told_with_their_size() -> None:
    out = torch.zeros(4, dtype=torch.float16)
    checked = check(out)
    checked.differs(lambda: out.fill_(2.0))
    assert checked.differs(lambda: out.fill_(3.0)) == "largest error 1, where the largest number is 2"
    assert checked.differs(lambda: out.fill_(2.002)) == ""


def test_an_element_that_is_not_written_is_seen() -> None:
    out = torch.zeros(4, dtype=torch.float16)
    checked = check(out)
    checked.differs(lambda: out.fill_(0.0))
    assert "not written" in checked.differs(lambda: out[1:].fill_(0.0))


def test_integers_must_be_equal() -> None:
    out = torch.zeros(4, dtype=torch.int32)
    checked = check(out)
    checked.differs(lambda: out.fill_(2))
    assert "integers of shape (4,) differ" in checked.differs(lambda: out.fill_(3))


def test_a_kernel_that_reads_what_it_writes_finds_it() -> None:
    out = torch.ones(4)
    checked = check(out, poison=False)
    for _ in range(2):
        assert checked.differs(lambda: out.add_(1.0)) == ""
    assert checked.expected[0].eq(2.0).all() and out.eq(1.0).all()


@pytest.mark.parametrize("writes", [None, (), (3,)])
def test_outputs_that_are_not_known_are_not_compared(writes: Any) -> None:
    assert output_check(("*fp16",), (torch.zeros(4),), writes) is None


def test_only_tensors_that_are_written_must_lie_apart() -> None:
    packed, out = torch.zeros(2, 8), torch.zeros(8)

    def repeats(*args: Any, writes: Any = (2,)) -> Any:
        return may_repeat(("*fp32", "*fp32", "*fp32"), writes, lambda args: "asked", args)

    assert repeats(packed[0], packed[1], out) is True
    assert repeats(packed[0], out, packed[1]) is False
    assert repeats(packed[0], packed[1], out, writes=None) == "asked"
    assert repeats(packed[0], packed[1], 1 << 40) == "asked"
