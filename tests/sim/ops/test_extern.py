"""libdevice functions against NumPy; unsupported functions and inline assembly are errors with a location."""

from __future__ import annotations

import numpy as np
import pytest

from tawa.sim import simulate
from tawa.sim.errors import UnsupportedOp
from tawa.sim.ops.extern import _byte_perm
from tests.sim.language import WIDTH, floats, language_kernel


def test_functions_of_libdevice() -> None:
    x, y = floats(1), floats(5)
    simulate(language_kernel("library_functions", {"x": "*fp32", "y": "*fp32"}), {"x": x, "y": y}, (1,))
    a, p = x.astype(np.float64), (np.abs(x) + np.float32(1)).astype(np.float64)
    wanted = np.stack([np.tanh(a), p**a, np.rint(a), np.arctan2(a, p), np.log1p(p)])
    np.testing.assert_allclose(y.reshape(5, WIDTH), wanted, rtol=1e-6)


def test_functions_on_bits_take_the_number_as_unsigned() -> None:
    x, y = np.arange(-7, WIDTH - 7, dtype=np.int32), np.zeros(5 * WIDTH, np.int32)
    simulate(language_kernel("functions_on_bits", {"x": "*i32", "y": "*i32"}), {"x": x, "y": y}, (1,))
    texts = [f"{int(number) & 0xFFFFFFFF:032b}" for number in x]
    wanted = [
        [text.count("1") for text in texts],
        [len(text) - len(text.lstrip("0")) for text in texts],
        [len(text.rstrip("0")) and 33 - len(text.rstrip("0")) for text in texts],
        np.array([int(text[::-1], 2) for text in texts], np.uint32).view(np.int32),
        [texts[0].count("1")] * WIDTH,
    ]
    np.testing.assert_array_equal(y.reshape(5, WIDTH), wanted)


def test_an_unknown_function_of_libdevice_is_named() -> None:
    module = language_kernel("unknown_library_function", {"x": "*fp32"})
    with pytest.raises(UnsupportedOp, match=r"__nv_j0f[\s\S]*operations\.py:\d+"):
        simulate(module, {"x": floats(1)}, (1,))


def test_inline_assembly_is_named_with_its_line() -> None:
    with pytest.raises(UnsupportedOp, match=r"inline assembly[\s\S]*operations\.py:\d+"):
        simulate(language_kernel("assembly", {"z": "*i32"}), {"z": np.zeros(WIDTH, np.int32)}, (1,))


def test_a_permutation_of_bytes_takes_one_of_eight_for_each_digit() -> None:
    first, second = (np.array([[number]], np.uint32).view(np.int32) for number in (0x83828180, 0x07060504))
    for digits, wanted in ((0x6420, 0x06048280), (0x7531, 0x07058381), (0x3210, 0x83828180), (0x7777, 0x07070707)):
        (found,) = _byte_perm(first, second, np.full((1, 1), digits, np.int32)).reshape(-1).view(np.uint32)
        assert int(found) == wanted
    assert _byte_perm(0x04030201, 0, 0x0123) == 0x01020304
