"""`tawa.ops.conv2d` where there is no GPU: shapes, what it refuses, tracing, forms, and what is kept of a call."""

from __future__ import annotations

import logging
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tawa.errors import DeviceError  # noqa: E402
from tawa.ops import ArgumentError, conv2d  # noqa: E402
from tawa.ops.convolution import op as operators  # noqa: E402
from tawa.ops.convolution.geometry import Geometry, dense, forms_of, in_windows  # noqa: E402
from tawa.ops.convolution.tiles import best_box, boxes, choices  # noqa: E402


def meta(*shape: int, dtype: Any = torch.float16, grad: bool = False) -> Any:
    return torch.empty(shape, dtype=dtype, device="meta", requires_grad=grad)


def given(dtype: Any = torch.float16, grad: bool = False) -> dict[str, Any]:
    """Two images of 16 channels, 8 filters of 3 x 3."""
    return {
        "x": meta(2, 16, 9, 11, dtype=dtype, grad=grad),
        "weight": meta(8, 16, 3, 3, dtype=dtype, grad=grad),
        "bias": meta(8, dtype=dtype, grad=grad),
    }


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({}, (7, 9)),
        ({"padding": 1}, (9, 11)),
        ({"stride": 2, "padding": (1, 0)}, (5, 5)),
        ({"dilation": (2, 1), "relu": True}, (5, 9)),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_output_has_channels_last_in_memory(options: dict[str, Any], size: tuple[int, int], dtype: Any) -> None:
    o = conv2d(**given(dtype), **options)
    assert (o.shape, o.dtype) == ((2, 8, *size), dtype)
    assert o.permute(0, 2, 3, 1).is_contiguous()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("options", [{"padding": 1, "relu": True}, {"stride": 2}])
def test_a_call_is_traced_without_a_break_with_its_gradients(options: dict[str, Any], dynamic: bool) -> None:
    now = given(grad=True)

    def model(**inputs: Any) -> Any:
        return conv2d(**inputs, **options) * 2

    output = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=dynamic)(**now)
    output.sum().backward()
    assert all(it.grad.shape == it.shape for it in now.values())


@pytest.mark.parametrize(
    "test", ["test_schema", "test_faketensor", "test_autograd_registration", "test_aot_dispatch_dynamic"]
)
@pytest.mark.parametrize("stride", [1, 2])
def test_the_operator_passes_opcheck(test: str, stride: int) -> None:
    arguments = (*given(grad=True).values(), [stride, stride], [1, 1], [1, 1], True, None)
    torch.library.opcheck(operators._conv2d, arguments, test_utils=test)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"x": meta(16, 9, 11)}, "x has shape \\(16, 9, 11\\)"),
        ({"weight": meta(8, 16, 3)}, "weight has shape"),
        ({"weight": meta(8, 15, 3, 3)}, "x has 16 channels, weight 15"),
        ({"bias": meta(7)}, "bias has 7 elements"),
        ({"bias": meta(8, dtype=torch.bfloat16)}, "different element types"),
        ({"weight": meta(8, 16, 12, 3)}, "there is no output"),
        ({"stride": 0}, "stride=0"),
        ({"padding": (1, -1)}, "padding="),
        ({"dilation": (1, 2, 3)}, "dilation="),
        ({"groups": 3}, "groups=3"),
        ({"groups": 2}, "with groups=2"),
        ({"form": "winograd"}, "form='winograd'"),
    ],
)
def test_a_wrong_argument_is_named(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        conv2d(**{**given(), **change})


def test_an_element_type_without_kernel_is_named() -> None:
    with pytest.raises(ArgumentError, match="float64"):
        conv2d(**given(torch.float64))


def test_tensors_on_the_cpu_are_refused() -> None:
    with pytest.raises(DeviceError, match="move them to a Hopper GPU"):
        conv2d(**{name: torch.zeros(it.shape, dtype=it.dtype) for name, it in given().items()})


def layer(channels: int, size: int, filters: int, kernel: int, stride: int, padding: int = 0, **more: Any) -> Geometry:
    two = (stride, stride), (padding, padding)
    return Geometry(128, channels, size, size, filters, kernel, kernel, *two, **more)


TWELVE = (
    layer(3, 227, 96, 11, 4), layer(3, 231, 96, 11, 4), layer(3, 227, 64, 7, 2), layer(32, 224, 64, 7, 2),
    layer(96, 24, 256, 5, 1), layer(256, 12, 512, 3, 1), layer(3, 224, 64, 3, 1), layer(64, 112, 128, 3, 1),
    layer(64, 56, 64, 3, 1), layer(128, 28, 128, 3, 1), layer(256, 14, 256, 3, 1), layer(512, 7, 512, 3, 1),
)  # fmt: skip
"""The layers of the im2win paper, without padding."""


@pytest.mark.parametrize(("number", "length"), [(0, 34), (2, 24), (6, 16), (8, 192)])
def test_columns_are_padded_to_the_next_stride_of_16_bytes(number: int, length: int) -> None:
    of = TWELVE[number]
    assert of.padded_length(of.KH * of.C) == length


@pytest.mark.parametrize("of", TWELVE, ids=str)
def test_im2win_takes_no_more_memory_than_its_shape_needs(of: Geometry) -> None:
    form = in_windows(of)
    assert form is not None
    needed = of.N * of.OH * ((of.OW - 1) * of.stride[1] + of.KW) * of.padded_length(of.KH * of.C) * of.bytes
    im2col = of.N * of.OH * of.OW * of.KH * of.KW * of.C * of.bytes
    assert form.extra_bytes(of) <= 1.02 * needed
    assert 0.23 <= form.extra_bytes(of) / im2col <= 0.61


@pytest.mark.parametrize("of", TWELVE, ids=str)
def test_layers_of_many_channels_need_no_copy(of: Geometry) -> None:
    names = [form.name for form in forms_of(of, dense(of))]
    assert ("direct" in names) == (of.C > 3)
    assert choices(of, forms_of(of, dense(of)), 132)[0].form is not None, "the library is predicted to be faster"


@pytest.mark.parametrize(
    ("of", "view"),
    [
        (layer(64, 56, 64, 3, 1, 1), "padded"),
        (layer(128, 56, 128, 3, 2, 1), "parities"),
        (layer(512, 7, 512, 3, 1, 1, bytes=4), "padded"),
        (layer(64, 56, 64, 1, 2), "windows"),
    ],
)
def test_resnet_needs_no_copy(of: Geometry, view: str) -> None:
    assert forms_of(of, dense(of))[0].view == view


@pytest.mark.parametrize("pixels", [64, 128, 256])
@pytest.mark.parametrize("of", TWELVE, ids=str)
def test_a_tile_wastes_little_at_batch_128(of: Geometry, pixels: int) -> None:
    images, rows, columns = best_box(of, pixels)
    assert images * rows * columns == pixels and (images, rows, columns) in set(boxes(pixels))
    tiles = -(-of.N // images) * -(-of.OH // rows) * -(-of.OW // columns)
    assert tiles * pixels <= 1.2 * of.N * of.OH * of.OW


class Kernel:
    """In place of a kernel, which is not launched."""

    runs = 0

    def run(self, *arguments: Any, **options: Any) -> None:
        self.runs += 1


@pytest.fixture
def as_on_hopper(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """Tensors of the CPU are taken for those of an H100, and nothing is launched."""
    from tawa.ops.calls import plain
    from tawa.ops.convolution import checks, launch

    kernel = Kernel()
    monkeypatch.setattr(checks, "check_devices", lambda named: None)
    monkeypatch.setattr(plain, "other_keys", ~plain._keys_of("CPU"))
    monkeypatch.setattr(launch, "convolve", kernel)
    monkeypatch.setattr(launch, "window_order", kernel)
    monkeypatch.setattr(operators, "_calls", plain.KnownCalls())
    return kernel


def test_arguments_like_those_before_are_not_checked_again(
    as_on_hopper: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[int] = []
    real = operators.check_tensors
    monkeypatch.setattr(operators, "check_tensors", lambda *given: (checked.append(1), real(*given)))
    now = {name: torch.zeros(it.shape, dtype=it.dtype) for name, it in given().items()}
    now = {name: it.contiguous(memory_format=torch.channels_last) if it.dim() == 4 else it for name, it in now.items()}
    for _ in range(3):
        conv2d(**now)
    assert (len(checked), as_on_hopper.runs) == (1, 3)
    for change in ({"stride": 2}, {"relu": True}, {"x": now["x"].contiguous()}, {"bias": None}):
        before = len(checked)
        conv2d(**{**now, **change})
        conv2d(**{**now, **change})
        assert len(checked) == before + 1
    for _ in range(2):
        with pytest.raises(ArgumentError):
            conv2d(**now, stride=0)
    assert conv2d(**now, stride=[2, 2]).shape == (2, 8, 4, 5)  # type: ignore[arg-type]


def test_float32_without_tf32_is_left_to_pytorch_with_a_remark(
    as_on_hopper: Kernel, caplog: pytest.LogCaptureFixture
) -> None:
    now = {name: torch.ones(it.shape, dtype=torch.float32) for name, it in given().items()}
    with caplog.at_level(logging.INFO, "tawa"), torch.backends.cudnn.flags(allow_tf32=False):
        found = conv2d(**now, relu=True)
    assert as_on_hopper.runs == 0 and torch.equal(found, torch.full_like(found, 145.0))
    assert "tf32 is switched off" in caplog.text
    with torch.backends.cudnn.flags(allow_tf32=True):
        conv2d(**now, relu=True, form="im2win")
    assert as_on_hopper.runs > 0


def test_groups_are_left_to_pytorch_with_a_remark(as_on_hopper: Kernel, caplog: pytest.LogCaptureFixture) -> None:
    x, weight = torch.ones(2, 16, 5, 5), torch.ones(8, 4, 3, 3)
    with caplog.at_level(logging.INFO, "tawa"):
        found = conv2d(x, weight, groups=4)
    assert torch.equal(found, torch.full((2, 8, 3, 3), 36.0)) and "4 groups" in caplog.text


@pytest.mark.parametrize(
    ("change", "text"),
    [({"form": "direct", "x": torch.zeros(2, 16, 9, 11).half()}, "channels are not last"),
     ({"form": "im2win", "dilation": 2}, "dilated columns")],
)  # fmt: skip
def test_a_form_that_does_not_exist_is_refused(as_on_hopper: Kernel, change: dict[str, Any], text: str) -> None:
    now = {name: torch.zeros(it.shape, dtype=it.dtype) for name, it in given().items()}
    with pytest.raises(ArgumentError, match=text):
        conv2d(**{**now, **change})
