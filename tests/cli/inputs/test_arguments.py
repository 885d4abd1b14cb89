"""The notation of --arg: what it means, and what is said where it means nothing."""

from __future__ import annotations

import numpy as np
import pytest

from tawa.cli.failures import UsageError
from tawa.cli.inputs.arguments import NumberArgument, TensorArgument, make_array, parse_argument, parse_arguments
from tawa.cli.inputs.kernel_file import load_kernel
from tawa.cli.inputs.launch_arguments import whole_signature
from tawa.sim import to_floats
from tests.cli.conftest import KERNELS

TYPES = {
    "a=randn:256x512:f16": "*fp16:16",
    "a=randn:256x512:bfloat16": "*bf16:16",
    "a=zeros:64:fp8e4nv": "*fp8e4nv:16",
    "a=zeros:64:int64": "*i64:16",
    "a=randn:256x512:f16:box=128x64": "tensordesc<fp16[128,64]>",
    "a=randn:box=128x64:256x512:f32": "tensordesc<fp32[128,64]>",
    "K=512": "i32:16",
    "K=500": "i32",
    "K=1": "i32:1",
    "K=-16": "i32:16",
    "K=4294967296": "i64:16",
    "K=True": "i1",
    "alpha=0.5": "fp32",
    "alpha=1e-3": "fp32",
    "bias=none": "None",
}


@pytest.mark.parametrize(("text", "wanted"), TYPES.items())
def test_the_type_follows_from_the_argument_as_a_launch_would_find_it(text: str, wanted: str) -> None:
    assert parse_argument(text).triton_type == wanted


def test_a_tensor_has_kind_shape_element_and_box() -> None:
    assert parse_argument("a = randint(0,10):4x8:i32") == TensorArgument(
        "a = randint(0,10):4x8:i32", "a", "randint(0,10)", (4, 8), "i32", None
    )
    assert parse_argument("K=512") == NumberArgument("K=512", "K", 512)


def tensor(text: str, seed: int = 0):
    argument = parse_argument(text)
    assert isinstance(argument, TensorArgument)
    return make_array(argument, seed)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a=zeros:2x2:f32", [[0, 0], [0, 0]]),
        ("a=ones:3:bf16", [0x3F80, 0x3F80, 0x3F80]),
        ("a=arange:2x3:i32", [[0, 1, 2], [3, 4, 5]]),
        ("a=arange:4:f16", [0, 1, 2, 3]),
        ("a=arange:130:i8", [*range(128), 0, 1]),
        ("a=arange:258:u8", [*range(256), 0, 1]),
        ("a=arange:3:i64", [0, 1, 2]),
        ("a=arange:3:u64", [0, 1, 2]),
    ],
)
def test_fillings_are_what_their_names_say(text: str, wanted: list[int]) -> None:
    assert tensor(text).tolist() == wanted


def test_arange_of_a_narrow_float_starts_again_before_numbers_get_lost() -> None:
    values = to_floats(tensor("a=arange:40:fp8e4nv"), "fp8e4nv")
    assert values.tolist() == [float(number % 16) for number in range(40)]


def test_random_fillings_are_normal_uniform_or_whole_and_nan_is_nan() -> None:
    normal, uniform, whole = tensor("a=randn:4096:f32"), tensor("a=rand:4096:f32"), tensor("a=randint(-3,4):4096:i32")
    assert abs(normal.mean()) < 0.1 and abs(normal.std() - 1) < 0.1
    assert uniform.min() >= 0 and uniform.max() < 1
    assert (whole.min(), whole.max(), whole.dtype) == (-3, 3, np.int32)
    assert np.isnan(tensor("a=nan:8:f16")).all()


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_whole_numbers_keep_their_sign(bits: int, tmp_path) -> None:
    """As an argument says, and as a file has them."""
    for sign, least in (("i", -(1 << (bits - 1))), ("u", 0)):
        text = f"a=randint({least},{least + (1 << bits)}):4096:{sign}{bits}"
        made = tensor(text)
        assert (str(made.dtype), parse_argument(text).triton_type) == (
            f"{sign.strip('i')}int{bits}",
            f"*{sign}{bits}:16",
        )
        assert (made < 0).any() == (sign == "i") and (made > (1 << (bits - 2))).any()
        np.save(tmp_path / "a.npy", made)
        file = f"a={tmp_path / 'a.npy'}"
        assert parse_argument(file).triton_type == f"*{sign}{bits}:16"
        assert (tensor(file) == made).all() and tensor(file).dtype == made.dtype
    assert parse_argument(f"a=zeros:64x64:u{bits}:box=64x64").triton_type == f"tensordesc<u{bits}[64,64]>"


def test_a_number_has_the_type_that_triton_gives_it() -> None:
    wanted = {"2147483647": "i32", "2147483649": "i64", "9223372036854775809": "u64", "9223372036854775808": "u64:16"}
    assert {text: parse_argument(f"K={text}").triton_type for text in wanted} == wanted


def test_a_tensor_depends_on_seed_and_name_and_on_no_other_argument() -> None:
    a, again, other, b = (
        tensor(*it) for it in (("a=rand:8:f32",), ("a=rand:8:f32", 0), ("a=rand:8:f32", 1), ("b=rand:8:f32",))
    )
    assert (a == again).all()
    assert (a != other).any() and (a != b).any()


def test_files_bring_shape_and_type_and_may_be_rounded(tmp_path) -> None:
    single, bits = tmp_path / "single.npy", tmp_path / "bits.npy"
    np.save(single, np.array([[1.0, 2.5]], np.float32))
    np.save(bits, np.array([0x3F80], np.uint16))
    assert parse_argument(f"a={single}").triton_type == "*fp32:16"
    assert tensor(f"a={single}").tolist() == [[1.0, 2.5]]
    assert tensor(f"a={single}:f16").dtype == np.float16
    assert tensor(f"a={single}:1x2:bf16").tolist() == [[0x3F80, 0x4020]]
    assert tensor(f"a={bits}:bf16").tolist() == [0x3F80]
    with pytest.raises(UsageError, match="has the shape 1x2, not 2x1"):
        parse_argument(f"a={single}:2x1:f32")


WRONG = {
    "K": ("NAME=VALUE is needed", "K=512"),
    "=512": ("NAME=VALUE is needed", "K=512"),
    "a=rnadn:4:f16": ("'rnadn' is neither a number nor a way to fill a tensor", "did you mean randn?"),
    "a=many:4:f16": ("'many' is neither", "randn, rand, zeros, ones, arange, nan, randint(lo,hi), FILE.npy"),
    "a=randn": ("shape and element type are needed", "a=randn:256x512:f16"),
    "a=randn:4": ("shape and element type are needed", "a=randn:256x512:f16"),
    "a=randn:4,4:f16": ("'4,4' is no shape", "256x512"),
    "a=randn:0x4:f16": ("'0x4' is no shape", "from 1 on"),
    "a=randn:4:f17": ("'f17' is no element type", "did you mean f16?"),
    "a=randn:4:i32": ("randn makes floats, i32 is a whole number", "randint(0,10)"),
    "a=randint(5,5):4:i32": ("no i32 lies from 5 to 4", "randint(0,10)"),
    "a=randint(-1,9):4:u8": ("no u8 lies from -1 to 8", "randint(0,10)"),
    "a=randint(0,1000):4:i8": ("no i8 lies from 0 to 999", "randint(0,10)"),
    "a=randn:4x64:f16:box=64": ("the tensor has 2 dimensions, the box 1", "box=64x64"),
    "a=randn:4x64:f16:box=big": ("'box=big' is no box", "box=128x64"),
    "a=randn:4x64:f16:box=100x64": ("powers of two", "box=128x64"),
    "a=randn:4x64:f16:box=1024x256": ("the box is too large: 524288 bytes", "box=128x64"),
    "a=randn:4x100:f16:box=64x64": ("a row of the tensor has 200 bytes", "a multiple of 8"),
    "a=randn:4x64:f16:box=64x4": ("a row of the box has 8 bytes", "a multiple of 8"),
    "a=missing.npy": ("no file 'missing.npy'", ""),
}


@pytest.mark.parametrize(("text", "what"), WRONG.items())
def test_what_means_nothing_is_named_with_a_cure(text: str, what: tuple[str, str]) -> None:
    with pytest.raises(UsageError) as caught:
        parse_argument(text)
    assert what[0] in caught.value.what and what[1] in caught.value.cure


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="--arg K is given twice: K=1 and K=2"):
        parse_arguments(["K=1", "K=2"])


def test_the_signature_keeps_what_is_given_and_adds_what_is_not() -> None:
    kernel = load_kernel(f"{KERNELS}:gemm")
    arguments = parse_arguments(["a=randn:128x64:f16:box=128x64", "b=zeros:64x128:f16", "c=nan:128x128:f16", "K=64"])
    assert whole_signature(kernel, "b=tensordesc<fp16[64,128]>, K=i32", "BM=128", arguments) == (
        "b=tensordesc<fp16[64,128]>, K=i32, a=tensordesc<fp16[128,64]>, c=*fp16:16"
    )


def test_parameters_without_a_value_are_listed_but_not_those_that_the_signature_fixes() -> None:
    kernel = load_kernel(f"{KERNELS}:gemm")
    with pytest.raises(UsageError) as caught:
        whole_signature(kernel, "K=64, b=tensordesc<fp16[64,128]>", "", parse_arguments(["c=nan:128x128:f16"]))
    assert caught.value.what == "no value for a, b; the launch needs a, b, c, K"
    assert caught.value.cure.startswith("--arg a=… --arg b=…")
