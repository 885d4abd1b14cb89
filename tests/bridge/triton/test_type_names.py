"""Names of types: those that Triton reads pass, any other is told with the right one."""

from __future__ import annotations

import pytest
from triton.language import str_to_ty

from tawa.bridge.triton.signature import as_signature, parse_signature
from tawa.bridge.triton.type_names import NAMES
from tawa.errors import PlanError


@pytest.mark.parametrize("name", NAMES)
def test_every_name_that_passes_is_one_that_triton_reads(name: str) -> None:
    for kind in (name, f"*{name}", f"*k{name}", f"tensordesc<{name}[64,64]>"):
        str_to_ty(kind, None)
        assert parse_signature(f"a={kind}", {}, ["a"]).types == {"a": kind}


MEANT = {
    "float16": "fp16", "*float16": "*fp16", "*Float16": "*fp16", "torch.float16": "fp16", "*torch.bfloat16": "*bf16",
    "*f16:16": "*fp16:16", "int": "i32", "int32": "i32", "uint8_t": "u8", "float": "fp32", "double": "fp64",
    "bool": "i1", "*f64": "*fp64", "*torch.float8_e4m3fn": "*fp8e4nv", "*fp8_e5m2": "*fp8e5", "fp17": "fp16",
    "tensordesc<float16[128,64]>": "tensordesc<fp16[128,64]>", "tensordesc<half[128,64]>": "tensordesc<fp16[128,64]>",
    "tensordesc<fp16>": "tensordesc<fp16[128,64]>", "tensordesc<bf16[127,64]>": "tensordesc<bf16[128,64]>",
    "tensordesc<bf16[128,x]>": "tensordesc<bf16[128,64]>", "tensordesc<[128,64]>": "tensordesc<fp16[128,64]>",
    "tensordesc<bf16[128,64]": "tensordesc<fp16[128,64]>",
    "tensordesc<fp16[128,64],shared>": "tensordesc<fp16[128,64]>",
    "tensordesc<fp16[128,64],swizzle=128>": "tensordesc<fp16[128,64]>",
    "ptr": "*fp16", "pointer:16": "*fp16:16", "*": "*fp16",
    "INT32:16": "i32:16", "I32": "i32",
}  # fmt: skip


@pytest.mark.parametrize("kind", MEANT)
def test_a_name_of_another_language_is_told_with_tritons(kind: str) -> None:
    with pytest.raises(PlanError) as caught:
        parse_signature(f"a={kind}", {}, ["a"])
    assert str(caught.value).startswith(f"a={kind}: ")
    assert str(caught.value).endswith(f"; cure: a={MEANT[kind]}")
    parse_signature(f"a={MEANT[kind]}", {}, ["a"])  # the cure is one


@pytest.mark.parametrize("kind", ["*fp8e9", "u31"])
def test_a_name_that_is_nearly_one_of_tritons_is_asked_about(kind: str) -> None:
    with pytest.raises(PlanError, match="did you mean"):
        parse_signature(f"a={kind}", {}, ["a"])


def test_a_text_that_is_no_type_at_all_is_told_the_types_and_the_quotes_of_constants() -> None:
    with pytest.raises(PlanError, match=r"neither a Triton type(.|\n)*stands in quotes: 'relu'; cure: one of fp16"):
        parse_signature("a=relu", {}, ["a"])


def test_what_is_no_text_is_refused_by_its_type() -> None:
    with pytest.raises(PlanError, match=r"signature: a text is needed, not dict; cure: signature="):
        as_signature({"a": "*fp16"}, {}, ["a"])
    with pytest.raises(PlanError, match=r"constexprs: names and values are needed, not str; cure: constexprs="):
        as_signature("a=*fp16", "BM=64", ["a", "BM"])
