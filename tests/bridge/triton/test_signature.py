"""Signatures in Triton's notation."""

from __future__ import annotations

import pytest
import triton.language as tl

from tawa.bridge.triton.signature import parse_constants, parse_signature
from tawa.errors import PlanError

NAMES = ["a", "p", "K", "s", "BM"]
GOOD = "a=tensordesc<fp16[128,64]>, p=*fp16:16, K=i32:16, s=1"


def test_types_marks_and_constants_are_told_apart() -> None:
    signature = parse_signature(GOOD, {"BM": 128}, NAMES)
    assert signature.types == {
        "a": "tensordesc<fp16[128,64]>", "p": "*fp16", "K": "i32", "s": "constexpr", "BM": "constexpr",
    }  # fmt: skip
    assert signature.constants == {(3,): 1, (4,): 128}
    assert signature.attributes == {(1,): [["tt.divisibility", 16]], (2,): [["tt.divisibility", 16]]}


def test_the_order_is_the_kernels_not_the_texts() -> None:
    signature = parse_signature("s=i64, K=i32, p=*bf16, a=fp32", {"BM": 1}, NAMES)
    assert list(signature.types) == NAMES


@pytest.mark.parametrize(
    "text, value",
    [("1", 1), ("-2", -2), ("0.5", 0.5), ("True", True), ("None", None), ("'relu'", "relu"), ("i32:1", 1)],
)
def test_a_value_is_a_constant(text: str, value: object) -> None:
    signature = parse_signature(f"x={text}", {}, ["x"])
    assert signature.types == {"x": "constexpr"}
    assert signature.constants == {(0,): value}


@pytest.mark.parametrize("kind", ["i1", "i64", "u8", "*fp8e4nv", "*fp8e5", "*bf16", "*fp64", "*i64"])
def test_spaces_do_not_matter(kind: str) -> None:
    assert parse_signature(f" x = {kind} : 16 ", {}, ["x"]).types == {"x": kind}


@pytest.mark.parametrize(
    "text, constants, message",
    [
        ("a=fp16", {}, "no type and no constant for p, K, s, BM"),
        (GOOD + ", q=i32", {"BM": 1}, "no parameter 'q'"),
        (GOOD, {"BM": 1, "K": 2}, "'K' is given twice"),
        (GOOD + ", K=i32", {"BM": 1}, "'K' is given twice"),
        (GOOD.replace("K=i32:16", "K=i32:8"), {"BM": 1}, "not '8'"),
        (GOOD.replace("K=i32:16", "K=int"), {"BM": 1}, "K=int: Triton calls this type i32; cure: K=i32"),
        (GOOD.replace("K=i32:16", "i32"), {"BM": 1}, "name=type"),
        (GOOD.replace("K=i32:16", "K:i32:16"), {"BM": 1}, "'K:i32:16': name=type is needed; cure: K=i32:16"),
        (GOOD.replace("K=i32:16", "K i32"), {"BM": 1}, "'K i32': name=type is needed; cure: K=i32"),
        (GOOD.replace("K=i32:16", "K=fp32:16"), {"BM": 1}, r"cure: K=\*fp32:16 for a pointer, K=fp32 for a number"),
        (
            "K=i33",
            {},
            "K=i33: neither a Triton type",
        ),  # before what is missing
        (GOOD.replace("K=", "KK="), {"BM": 1}, "no parameter 'KK'; cure: did you mean K?"),
    ],
)
def test_a_mistake_is_named(text: str, constants: dict[str, object], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        parse_signature(text, constants, NAMES)


def test_what_is_missing_is_named_with_types_for_arguments_and_values_for_constants() -> None:
    names = ["a_ptr", "desc", "stride_am", "M", "BM"]
    with pytest.raises(PlanError) as told:
        parse_signature("M=i32", {}, names, ["BM"])
    assert str(told.value) == (
        "no type and no constant for a_ptr, desc, stride_am; no value for tl.constexpr BM; cure: add to the signature "
        "a_ptr=*fp16:16, desc=tensordesc<fp16[128,64]>, stride_am=i32:16, and constexprs={'BM': …} "
        "(with the types and values of your launch)"
    )


def test_a_comma_in_quotes_belongs_to_the_text() -> None:
    texts = {"ASM": "mov.b32 $0, $1; // it's", "SAID": 'x, "y=2", z', "BM": 128}
    written = ", ".join(f"{name}={value!r}" for name, value in texts.items())
    assert parse_constants(written) == texts
    assert parse_signature(f"{written}, p=*fp16", {}, [*texts, "p"]).types["p"] == "*fp16"


def test_constants_are_literals_names_of_the_module_and_tuples_of_these() -> None:
    module = {"tl": tl, "relu": parse_signature, "SHAPE": tl.constexpr((64, 32))}
    text = "TYPE=tl.float16, ACT=relu, SHAPE=(128, 64, (tl.int8, -1)), OLD=SHAPE, MORE=((1, 2), (3, 4)), N=None"
    assert parse_constants(text, module) == {
        "TYPE": tl.float16, "ACT": parse_signature, "SHAPE": (128, 64, (tl.int8, -1)), "OLD": (64, 32),
        "MORE": ((1, 2), (3, 4)), "N": None,
    }  # fmt: skip
    for text, said in (
        ("ACT=relo", "has no 'relo'; cure: did you mean 'relu'"),
        ("TYPE=tl.float17", "has no 'tl.float17'; cure: "),
        ("A=relu()", r"A=relu\(\): not a constant; cure: a number"),
        ("A=relu if 1 else 2", "not a constant"),
        ("A=tl.float16.__class__()", "not a constant"),
        ("A=(1", "not a constant"),
    ):
        with pytest.raises(PlanError, match=said):
            parse_constants(text, module)


def test_constants_are_literals() -> None:
    assert parse_constants("BM=128, FLAT=True, ACT='relu'") == {"BM": 128, "FLAT": True, "ACT": "relu"}
    with pytest.raises(PlanError, match="BM=i32x"):
        parse_constants("BM=i32x")
