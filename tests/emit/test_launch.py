"""`launch` of an emitted file, with a kernel that notes its arguments."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tawa.emit.launch.made import Made
from tawa.emit.launch.source import launch_source
from tawa.emit.parameters import Box, Parameter
from tawa.errors import EmitError
from tawa.symbolic.host.expr import Apply, Argument, Condition, Number
from tawa.symbolic.host.launch_spec import DescriptorSpec, LaunchSpec

MADE = Made(
    parameters=("a", "M", "BM"),
    constants={"BM": 128},
    types={"a": "tensordesc<fp16[128,64]>", "M": "i32"},
    divisible=("M",),
    values=("a.base.data_ptr()", *(f"a.{field}[{dim}]" for field in ("shape", "strides") for dim in (0, 1)), "M"),
    passed=("a", "", "", "", "", "M"),
)
BOX = Box((64, 64), "f16", "TILES")
PARAMETERS = (Parameter("a", 0, "tensordesc<fp16[64, 64]>", box=BOX), Parameter("M", 5, "i32"))


class Kernel:
    """Notes what it is launched with."""

    def __init__(self) -> None:
        self.launches: list[Any] = []

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *args, **kwargs: self.launches.append((grid, args, kwargs))


def loaded(made: Made, parameters: tuple[Parameter, ...], **options: int) -> dict[str, Any]:
    _, text = launch_source(made, "gemm", parameters, options)
    names = {
        "gemm": Kernel(),
        "TILES": SimpleNamespace(value="layout"),
        "TensorDescriptor": lambda *it: it,
        "canonicalize_dtype": str,
    }
    exec(text, names)
    return names


def descriptor(block: list[int], dtype: str = "fp16") -> Any:
    base = SimpleNamespace(dtype=dtype)
    return SimpleNamespace(base=base, shape=(256, 64), strides=(64, 1), block_shape=block, padding="zero")


@pytest.fixture
def file() -> dict[str, Any]:
    return loaded(MADE, PARAMETERS, num_warps=4, maxnreg=128)


def test_a_descriptor_gets_the_block_of_the_emitted_kernel(file) -> None:
    given = descriptor([128, 64])
    file["launch"]((2,), given, 256, BM=128)
    passed = ((given.base, [256, 64], [64, 1], [64, 64], "layout", "zero"), 256)
    assert file["gemm"].launches == [((2,), passed, {"num_warps": 4, "maxnreg": 128})]


def test_a_grid_is_computed_from_all_arguments_also_constants_that_are_left_out(file) -> None:
    file["launch"](lambda given: (given["M"] // given["BM"],), descriptor([128, 64]), 256)
    assert file["gemm"].launches[0][0] == (2,)


UNFIT = {
    "BM is 64, and the kernel was made for 128": (descriptor([128, 64]), 256, 64),
    "M is not divisible by 16": (descriptor([128, 64]), 250, 128),
    r"a has blocks of \[64, 64\]": (descriptor([64, 64]), 256, 128),
    "a has elements of bf16": (descriptor([128, 64], "bf16"), 256, 128),
    "M is 2147483648, and the kernel was made for numbers of 32 bits": (descriptor([128, 64]), 1 << 31, 128),
}


@pytest.mark.parametrize(("reason", "arguments"), UNFIT.items())
def test_what_the_kernel_was_not_made_for_is_an_error_or_the_fallback(file, reason: str, arguments: Any) -> None:
    with pytest.raises(ValueError, match=reason):
        file["launch"]((2,), *arguments)
    original = Kernel()
    file["launch"]((2,), *arguments, fallback=original)
    assert original.launches == [((2,), arguments, {})] and not file["gemm"].launches


def test_a_default_of_the_kernel_is_not_the_constant_that_it_was_made_for() -> None:
    made = Made(("M", "BM"), {"BM": 128}, {"BM": 64}, {"M": "i32"}, (), ("M",), ("M",))
    file = loaded(made, (Parameter("M", 0, "i32"),))
    with pytest.raises(ValueError, match="BM is 64"):
        file["launch"]((1,), 256)
    file["launch"]((1,), 256, BM=128)


def test_a_function_among_the_constants_is_known_by_its_name() -> None:
    def gelu() -> None: ...
    def relu() -> None: ...

    made = Made(("M", "ACT"), {"ACT": gelu}, {}, {"M": "i32"}, (), ("M",), ("M",))
    file = loaded(made, (Parameter("M", 0, "i32"),))
    file["launch"]((1,), 256, gelu)
    with pytest.raises(ValueError, match="ACT is another function than gelu"):
        file["launch"]((1,), 256, relu)


def test_a_constant_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(EmitError, match="the value of the constant ACT"):
        loaded(Made(("ACT",), {"ACT": object()}), ())


def test_a_part_of_a_tuple_is_passed_and_checked() -> None:
    made = Made(("pair",), {"pair[1]": 1}, {}, {"pair[0]": "i32"}, ("pair[0]",), ("pair[0]",), ("pair[0]",))
    file = loaded(made, (Parameter("pair", 0, "i32"),))
    file["launch"]((1,), (32, 1))
    assert file["gemm"].launches == [((1,), (32,), {})]
    with pytest.raises(ValueError, match=r"pair\[1\] is 2, and the kernel was made for 1"):
        file["launch"]((1,), (32, 2))


def test_a_parameter_may_have_the_name_of_the_grid() -> None:
    file = loaded(Made(("grid",), {}, {}, {"grid": "i32"}, (), ("grid",), ("grid",)), (Parameter("grid", 0, "i32"),))
    file["launch"]((3,), 5)
    assert file["gemm"].launches == [((3,), (5,), {})]


def test_numbers_are_divided_as_in_a_kernel_and_not_by_zero() -> None:
    """The size of a tensor is (K - 8) / D, rounded towards zero; TMA needs it to be positive."""
    size = Apply("divide", (Apply("sum", (Argument(1), Number(-8))), Argument(2)))
    spec = LaunchSpec(
        (DescriptorSpec(0, Apply("product", (Argument(2), Number(8))), (size,), (Number(1),), (64,), "f16", 2, 3),),
        (Condition(size, "TMA limits sizes", -100),),
    )
    fields = ("p.data_ptr()", "K", "D")
    made = Made(("p", "K", "D"), {}, {}, {"p": "*fp16", "K": "i32", "D": "i32"}, (), fields, ("p", "K", "D"), spec)
    file = loaded(made, (Parameter("p_desc", 3, "tensordesc<fp16[64]>", box=Box((64,), "f16", "TILES")),))
    tensor = SimpleNamespace(data_ptr=lambda: 4096, dtype="fp16")
    file["launch"]((1,), tensor, 1, 4)
    ((_, (passed,), _),) = file["gemm"].launches
    assert passed[0].data_ptr() == 4096 + 2 * 8 * 4 and passed[0].dtype == "fp16"
    assert passed[1:] == ([-1], [1], [64], "layout")
    with pytest.raises(ValueError, match="cannot be computed: D is 0"):
        file["launch"]((1,), tensor, 1, 0)
    with pytest.raises(ValueError, match=r"TMA limits sizes: divide\(\(K - 8\), D\) >= -100"):
        file["launch"]((1,), tensor, -1000, 4)
