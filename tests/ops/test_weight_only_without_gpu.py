"""Products with weights in few bits where there is no GPU: packings, shapes, what is refused, tracing, semaphores."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tawa.errors import DeviceError  # noqa: E402
from tawa.ops import ArgumentError, pack_weights, repack, weight_only_mm  # noqa: E402
from tawa.ops.calls import plain  # noqa: E402
from tawa.ops.products import tile_choice, weight_only_launch, weight_only_op  # noqa: E402
from tawa.ops.products.weight_only_packing import (  # noqa: E402
    BITS,
    FOREIGN,
    foreign_codes,
    foreign_zeros,
    packed_shape,
    unpack_weights,
)
from tawa.plan.cost.tile_time import Device  # noqa: E402
from tests.ops.expected_quantised import random_weights, widened  # noqa: E402

M, N, K, SIZE = 5, 64, 512, 128
FP8_WORDS = torch.empty(packed_shape(N, K, "fp8_e4m3"), dtype=torch.int32, device="meta")


# --- packings ---


@pytest.mark.parametrize("K", [1, 64, 256, 300])
def test_a_packed_weight_is_where_the_kernel_looks_for_it(K: int) -> None:
    weights = torch.randint(0, 16, (3, K))
    words = pack_weights(weights, "int4")
    assert words.shape == packed_shape(3, K, "int4")
    for k in range(K):
        block, (plane, within) = k // 256, divmod(k % 256, 64)
        word, half = divmod(within, 2)
        assert torch.equal((words[:, block * 32 + word] >> (16 * half + 4 * plane)) & 15, weights[:, k].int())


@pytest.mark.parametrize(("format", "dtype"), [("int8", torch.int8), ("int8", torch.uint8), ("int4", torch.int64)])
def test_unpacked_weights_are_those_that_were_packed(format: str, dtype: Any) -> None:
    low, high = (0, 16) if format == "int4" else (-128, 128) if dtype == torch.int8 else (0, 256)
    weights = torch.randint(low, high, (7, 300)).to(dtype)
    assert torch.equal(unpack_weights(pack_weights(weights, format), 300, format), weights.int() - low)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_bits_of_floating_point_are_kept(dtype: Any) -> None:
    weights = torch.randn(7, 300).to(dtype)
    format = "fp8_e4m3" if dtype == torch.float8_e4m3fn else "fp8_e5m2"
    assert torch.equal(
        widened(pack_weights(weights, format), torch.ones(1, 7), None, 300, None, format), weights.double()
    )


def test_awq_and_gptq_are_understood_as_their_packers_write_them() -> None:
    codes = torch.randint(0, 16, (64, 32), dtype=torch.int32)  # (K, N)
    of_awq = sum(codes[:, [8 * j + column for j in range(4)]] << (4 * place)
                 for place, column in enumerate((0, 2, 4, 6, 1, 3, 5, 7)))  # fmt: skip
    assert torch.equal(foreign_codes(of_awq, "awq"), codes.t())
    of_gptq = sum(codes[place::8] << (4 * place) for place in range(8))
    assert torch.equal(foreign_codes(of_gptq, "gptq"), codes.t())
    assert torch.equal(foreign_zeros(of_awq, "awq"), codes)
    of_rows = sum(codes[:, place::8] << (4 * place) for place in range(8))
    assert torch.equal(foreign_zeros(of_rows, "gptq_v2"), codes)
    assert torch.equal(foreign_zeros(of_rows, "gptq"), codes + 1)


@pytest.mark.parametrize("format", FOREIGN)
@pytest.mark.parametrize("has_zeros", [False, True])
def test_repacked_weights_stand_for_the_same_numbers(format: str, has_zeros: bool) -> None:
    given = random_weights(format, N, K, SIZE, has_zeros)
    qweight, scales, zeros = repack(given.qweight, given.scales, given.zeros, format=format)
    assert torch.equal(widened(qweight, scales, zeros, K, SIZE, "int4"), given.exact)


@pytest.mark.parametrize(
    ("weights", "format"),
    [
        (torch.zeros(4, 4), "int4"),
        (torch.zeros(4, 4, dtype=torch.int32), "int8"),
        (torch.zeros(4, 4, dtype=torch.float8_e5m2), "fp8_e4m3"),
        (torch.zeros(4, dtype=torch.int8), "int8"),
        (torch.zeros(4, 4, dtype=torch.int8), "gptq"),
    ],
)
def test_weights_that_do_not_suit_their_format_are_refused(weights: Any, format: str) -> None:
    with pytest.raises(ArgumentError):
        pack_weights(weights, format)


def test_only_packings_from_elsewhere_are_repacked() -> None:
    with pytest.raises(ArgumentError, match="one of gptq, gptq_v2, awq"):
        repack(torch.zeros(4, 4, dtype=torch.int32), torch.zeros(1, 4), format="int4")
    with pytest.raises(ArgumentError, match="two dimensions of int32"):
        repack(torch.zeros(4, 4), torch.zeros(1, 4), format="awq")


# --- the operator ---


def meta(*shape: int, dtype: Any = torch.float16, grad: bool = False) -> Any:
    return torch.empty(shape, dtype=dtype, device="meta", requires_grad=grad)


def given(format: str = "int4", **changed: Any) -> dict[str, Any]:
    shapes: dict[str, tuple[int, int]] = {"awq": (K, N // 8), "gptq": (K // 8, N), "gptq_v2": (K // 8, N)}
    shape = shapes[format] if format in FOREIGN else packed_shape(N, K, format)
    made = {"x": meta(M, K), "qweight": meta(*shape, dtype=torch.int32), "scales": meta(K // SIZE, N)}
    return {**made, "group_size": SIZE, "format": format, **changed}


@pytest.mark.parametrize("shape", [(K,), (M, K), (2, M, K)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_output_has_the_rows_of_x(shape: tuple[int, ...], dtype: Any) -> None:
    y = weight_only_mm(**given(x=meta(*shape, dtype=dtype)))
    assert (y.shape, y.dtype) == ((*shape[:-1], N), dtype)


@pytest.mark.parametrize("format", [*BITS, *FOREIGN])
def test_every_format_is_taken(format: str) -> None:
    zeros = {} if format.startswith("fp8") else {"zeros": meta(K // SIZE, N)}
    zeros = {"zeros": meta(K // SIZE, N // 8, dtype=torch.int32)} if format in FOREIGN else zeros
    assert weight_only_mm(**given(format), **zeros, bias=meta(N)).shape == (M, N)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"format": "int3"}, "format='int3'"),
        ({"x": meta(M, K, dtype=torch.float32)}, "x has shape"),
        ({"qweight": meta(N, K // 8)}, "qweight has shape .* type float16"),
        ({"qweight": meta(N, K, dtype=torch.int32)}, r"of format 'int4' have \(64, 64\)"),
        ({"scales": meta(N)}, "scales have shape"),
        ({"scales": meta(5, N)}, "5 groups, K=512 with group_size=128 has 4"),
        ({"group_size": 33}, "group_size=33"),
        ({"group_size": -2}, "group_size=-2"),
        ({"zeros": meta(4, N // 8, dtype=torch.int32)}, "zeros have shape"),
        ({"zeros": meta(4, N), "format": "fp8_e4m3", "qweight": FP8_WORDS},
         "floating point has its own zero"),
        ({"bias": meta(N + 1)}, "bias has shape"),
        (given("gptq", group_size=8, scales=meta(64, N)), "a multiple of 16"),
        (given("awq", qweight=meta(K // 8, N, dtype=torch.int32)), "format 'awq'"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_named(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        weight_only_mm(**{**given(), **change})


def test_a_gradient_is_refused_before_anything_runs() -> None:
    with pytest.raises(ArgumentError, match="no backward kernels"):
        weight_only_mm(**given(x=meta(M, K, grad=True)))
    with torch.no_grad():
        weight_only_mm(**given(x=meta(M, K, grad=True)))


def test_tensors_on_the_cpu_are_refused() -> None:
    now = {
        name: torch.zeros(x.shape, dtype=x.dtype) if isinstance(x, torch.Tensor) else x for name, x in given().items()
    }
    with pytest.raises(DeviceError, match="move them to a Hopper GPU"):
        weight_only_mm(**now)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_call_is_traced_without_a_break(dynamic: bool) -> None:
    tensors = {name: it for name, it in given().items() if isinstance(it, torch.Tensor)}
    compiled = torch.compile(
        lambda **inputs: weight_only_mm(**inputs, group_size=SIZE) * 2, backend="aot_eager", fullgraph=True,
        dynamic=dynamic,
    )  # fmt: skip
    assert compiled(**tensors).shape == (M, N)


@pytest.mark.parametrize("test", ["test_schema", "test_faketensor"])
def test_the_operator_passes_opcheck(test: str) -> None:
    x, qweight, scales = (given()[name] for name in ("x", "qweight", "scales"))
    torch.library.opcheck(
        weight_only_op._weight_only_mm, (x, qweight, scales, None, None, SIZE, "int4"), test_utils=test
    )


# --- launches ---


class Kernel:
    """In place of a kernel, which is not launched. seen: the arguments and constants of each launch."""

    def __init__(self) -> None:
        self.seen: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def run(self, *arguments: Any, **constants: Any) -> None:
        self.seen.append((arguments, constants))


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """Tensors of the CPU are taken for those of an H100."""
    kernel = Kernel()
    for module, name, value in (
        (weight_only_op, "check_devices", lambda named: None),
        (plain, "other_keys", ~plain._keys_of("CPU")),
        (weight_only_launch, "check_capability", lambda a: None),
        (weight_only_launch, "is_hopper", lambda device: True),
        (weight_only_launch, "weight_only", kernel),
        (weight_only_op, "_calls", plain.KnownCalls()),
    ):
        monkeypatch.setattr(module, name, value)
    return kernel


def on_cpu(tokens: int = M, K: int = 4096) -> dict[str, Any]:
    shape = packed_shape(N, K, "int4")
    return {"x": torch.zeros(tokens, K).half(), "qweight": torch.zeros(shape, dtype=torch.int32),
            "scales": torch.zeros(K // SIZE, N).half(), "group_size": SIZE}  # fmt: skip


def test_arguments_like_those_before_are_not_checked_again(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[int] = []
    check = weight_only_op.check
    monkeypatch.setattr(weight_only_op, "check", lambda *arguments: (checks.append(1), check(*arguments)))
    now = on_cpu()
    for _ in range(3):
        weight_only_mm(**now)
    assert (len(checks), len(kernel.seen)) == (1, 3)
    weight_only_mm(**now, bias=torch.zeros(N))
    assert len(checks) == 2
    for _ in range(2):
        with pytest.raises(ArgumentError):
            weight_only_mm(**{**now, "group_size": 64})


def test_few_tokens_are_split_and_get_semaphores_at_zero(kernel: Kernel) -> None:
    weight_only_mm(**on_cpu())
    ((first, constants),) = kernel.seen
    assert constants["SPLIT"] == 8
    parts, semaphores = first[6:8]
    assert len(semaphores) >= 1 and not semaphores.any()
    assert len(parts) == 8 * constants["BN"] * constants["BM"] and parts.dtype == torch.float32


def test_many_tokens_are_not_split(kernel: Kernel) -> None:
    weight_only_mm(**on_cpu(4096))
    arguments, constants = kernel.seen[-1]
    assert constants["SPLIT"] == 1 and arguments[6:8] == (None, None)


@pytest.mark.parametrize("shape", [(0, 512), (5, 0)])
def test_empty_products_launch_nothing(kernel: Kernel, shape: tuple[int, int]) -> None:
    packed = torch.zeros(packed_shape(N, shape[1], "int4"), dtype=torch.int32)
    y = weight_only_mm(torch.zeros(shape).half(), packed, torch.ones(1, N), bias=torch.ones(N))
    assert torch.equal(y, torch.ones(shape[0], N).half())
    assert not kernel.seen


# --- the choice of a tile ---


def test_splits_leave_two_blocks_to_each_program() -> None:
    tile = tile_choice.WEIGHTS[0]
    assert [tile_choice.splits_for(tile, 16, 64, steps, 132) for steps in (1, 2, 3, 4, 7, 8, 64)] == [
        1,
        1,
        1,
        2,
        2,
        4,
        8,
    ]
    assert tile_choice.splits_for(tile, 16, 64 * 132 * 3, 64, 132) == 1


def test_small_products_get_small_tiles_and_large_ones_large_tiles() -> None:
    tiles, device = tile_choice.BATCHED, Device(132, 3.35e6)
    assert tile_choice.fastest(tiles, 8192, 8192, 8192, 1, device) is tiles[0]
    assert tile_choice.fastest(tiles, 64, 4096, 4096, 1, device).BM == 64
