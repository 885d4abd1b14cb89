"""Scaled products where there is no GPU: shapes, what is refused, tracing, and what is decided once."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tawa.errors import DeviceError  # noqa: E402
from tawa.ops import ArgumentError, scaled_mm  # noqa: E402
from tawa.ops.calls import plain  # noqa: E402
from tawa.ops.products import matmul_launch, scaled_launch, scaled_op, tile_choice  # noqa: E402

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
M, N, K = 200, 300, 400


def meta(*shape: int, dtype: Any = torch.float32, grad: bool = False) -> Any:
    return torch.empty(shape, dtype=dtype, device="meta", requires_grad=grad)


def given(dtype: Any = E4M3, **changed: Any) -> dict[str, Any]:
    scales = {"scale_a": meta(M, 4), "scale_b": meta(4, 3)}
    return {"a": meta(M, K, dtype=dtype), "b": meta(N, K, dtype=dtype).t(), **scales, **changed}


@pytest.mark.parametrize("out_dtype", [None, torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_output_has_rows_of_a_and_columns_of_b(dtype: Any, out_dtype: Any) -> None:
    c = scaled_mm(**given(dtype), bias=meta(N), out_dtype=out_dtype)
    assert (c.shape, c.dtype) == ((M, N), out_dtype or torch.bfloat16)


@pytest.mark.parametrize("of_a", [(), (1,), (1, 1), (M, 1), (M, 4), (2, 4)])
@pytest.mark.parametrize("of_b", [(), (1, 1), (1, N), (4, N), (4, 3)])
def test_every_kind_of_scale_goes_with_every_other(of_a: tuple[int, ...], of_b: tuple[int, ...]) -> None:
    now = given(scale_a=meta(*of_a), scale_b=meta(*of_b))
    assert scaled_mm(**now).shape == (M, N)
    assert scaled_mm(**{**now, "b": meta(N, K, dtype=E5M2).t()}).shape == (M, N)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"a": meta(2, M, K, dtype=E4M3)}, "a has shape"),
        ({"a": meta(M, K, dtype=torch.float16)}, "a has type float16"),
        ({"b": meta(K + 1, N, dtype=E4M3)}, "do not share K"),
        (
            {"scale_a": meta(M, 3)},
            r"\(200, 3\) for M=200, K=400; cure: .* \(200, 1\), \(200, 4\), \(2, 4\)",
        ),
        (
            {"scale_b": meta(3, 4)},
            r"\(3, 4\) for N=300, K=400; cure: .* \(1, 300\), \(4, 300\), \(4, 3\)",
        ),
        ({"scale_a": meta(M, 4, dtype=torch.float64)}, "scale_a has type float64"),
        ({"bias": meta(M)}, "bias has shape"),
        ({"bias": meta(N, dtype=torch.float64)}, "type float64"),
        ({"out_dtype": E4M3}, "out_dtype="),
    ],
)
def test_a_wrong_argument_is_named(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        scaled_mm(**{**given(), **change})


def test_a_gradient_is_refused_before_anything_runs() -> None:
    now = given(scale_a=meta(M, 4, grad=True))
    with pytest.raises(ArgumentError, match="no backward kernels"):
        scaled_mm(**now)
    with torch.no_grad():
        scaled_mm(**now)


def test_tensors_on_the_cpu_are_refused() -> None:
    now = {name: torch.zeros(x.shape, dtype=x.dtype) for name, x in given().items()}
    with pytest.raises(DeviceError, match="move them to a Hopper GPU"):
        scaled_mm(**now)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_call_is_traced_without_a_break(dynamic: bool) -> None:
    compiled = torch.compile(
        lambda **inputs: scaled_mm(**inputs) * 2, backend="aot_eager", fullgraph=True, dynamic=dynamic
    )
    assert compiled(**given()).shape == (M, N)


@pytest.mark.parametrize("test", ["test_schema", "test_faketensor"])
def test_the_operator_passes_opcheck(test: str) -> None:
    arguments = (*given().values(), None, torch.bfloat16, False)
    torch.library.opcheck(scaled_op._scaled_mm, arguments, test_utils=test)


class Kernel:
    """In place of a kernel, which is not launched. seen: the constants of each launch."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    def run(self, *arguments: Any, **constants: Any) -> None:
        self.seen.append(constants)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """Tensors of the CPU are taken for those of an H100."""
    kernel = Kernel()
    for module, name, value in (
        (scaled_op, "check_devices", lambda named: None),
        (plain, "other_keys", ~plain._keys_of("CPU")),
        (scaled_launch, "check_capability", lambda a: None),
        (scaled_launch, "is_hopper", lambda device: True),
        (scaled_launch, "scaled_mm", kernel),
        (scaled_op, "_calls", plain.KnownCalls()),
    ):
        monkeypatch.setattr(module, name, value)
    return kernel


def on_cpu(**changed: Any) -> dict[str, Any]:
    made = given(**changed)
    return {name: torch.zeros(x.shape[::-1], dtype=x.dtype).t() if name == "b" else torch.zeros(x.shape, dtype=x.dtype)
            for name, x in made.items()}  # fmt: skip


def test_arguments_like_those_before_are_not_checked_again(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[int] = []
    check = scaled_op.check
    monkeypatch.setattr(scaled_op, "check", lambda *arguments: (checks.append(1), check(*arguments)))
    now = on_cpu()
    for _ in range(3):
        scaled_mm(**now)
    assert (len(checks), len(kernel.seen)) == (1, 3)
    scaled_mm(**now, out_dtype=torch.float16)
    scaled_mm(**now, bias=torch.zeros(N))
    assert len(checks) == 3
    for _ in range(2):
        with pytest.raises(ArgumentError):
            scaled_mm(**{**now, "scale_a": torch.zeros(M, 5)})


@pytest.mark.parametrize(
    ("scale", "columns", "allowed", "fast"),
    [((M, 1), 304, True, True), ((), 304, True, True), ((M, 4), 304, True, False), ((M, 1), 300, True, False),
     ((M, 1), 304, False, False)],
)  # fmt: skip
def test_fast_sums_are_allowed_with_scales_outside_of_the_loop_and_whole_rows_of_c(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, scale: tuple[int, ...], columns: int, allowed: bool, fast: bool
) -> None:
    made = Kernel()
    for name in ("matmul", "matmul_split"):
        monkeypatch.setattr(matmul_launch, name, made)
    for name, value in (("check_capability", lambda a: None), ("is_hopper", lambda device: True)):
        monkeypatch.setattr(matmul_launch, name, value)
    given = {**on_cpu(), "b": torch.zeros(columns, K, dtype=E4M3).t(), "scale_b": torch.zeros(1, columns)}
    c = scaled_mm(**{**given, "scale_a": torch.zeros(scale)}, use_fast_accum=allowed)
    assert (c.shape, c.dtype) == ((M, columns), torch.bfloat16)
    assert (len(made.seen), len(kernel.seen)) == (fast, not fast)
    if fast:
        assert {made.seen[0]["ROW_STEP"], made.seen[0]["COLUMN_STEP"]} == {int(scale != ()), 1}


@pytest.mark.parametrize("of_b", [False, True])
@pytest.mark.parametrize("rows_inside", [True, False])
@pytest.mark.parametrize(("rows", "large", "copied"), [(200, True, False), (202, True, True), (202, False, False)])
def test_scales_of_neighbouring_rows_are_neighbours_in_large_tiles(
    rows: int, large: bool, copied: bool, rows_inside: bool, of_b: bool
) -> None:
    steps = 3
    scale = torch.arange(rows * steps, dtype=torch.float32).reshape(steps, rows).t()  # rows are neighbours
    if not rows_inside:
        scale, copied = scale.contiguous(), large
    tile = tile_choice.Tile(128 if large else 64, 128, 128, 8, 4)
    scales = scaled_launch._Scales(scale.t() if of_b else scale, 2, tile, of_b)
    seen = scales(scale.t() if of_b else scale)
    assert (scales.copied, scales.unit) == (copied, copied or (rows_inside and rows == 200))
    assert scales.unit == (scales.strides[0] == 1 and scales.strides[1] % 4 == 0)
    assert torch.equal(seen.as_strided((rows, steps), scales.strides), scale)


@pytest.mark.parametrize("shape", [(0, N, K), (M, 0, K), (M, N, 0)])
def test_empty_products_launch_nothing(kernel: Kernel, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    bias = torch.ones(n)
    c = scaled_mm(torch.zeros(m, k, dtype=E4M3), torch.zeros(k, n, dtype=E4M3), torch.ones(()), torch.ones(()), bias)
    assert torch.equal(c, torch.ones(m, n, dtype=torch.bfloat16))
    assert not kernel.seen
