"""Kernels specialised by hand are proved: no false alarms."""

from __future__ import annotations

import pytest

from tawa.ir import Module
from tawa.verify.barriers import check_barriers
from tawa.verify.verdict import Proved
from tests.matrix.gluon import backward_attention, gluon_module
from tests.support.sample import sample
from tests.support.verdicts import passes

pytest.importorskip("triton.experimental.gluon")


def gemm(b_t: bool, element: str) -> Module:
    from bench.peers import gluon_gemm

    boxes = {"a_desc": [128, 64], "b_desc": [256, 64] if b_t else [64, 256], "c_desc": [128, 128]}
    constants = {"BM": 128, "BN": 256, "BK": 64, "D": 3, "GROUP_M": 8, "P": 1, "EN": 128}
    constants |= {"KI": 16 if element == "fp16" else 32, "B_T": b_t, "REGISTERS": 24, "num_warps": 8}
    return gluon_module(gluon_gemm.gemm, boxes, constants, {"a_desc": element, "b_desc": element, "c_desc": "fp16"}, {})


def attention(causal: bool, ping_pong: bool) -> Module:
    from bench.peers import gluon_attention

    constants = {"BM": 128, "BN": 128, "HD": 128, "D": 2, "CAUSAL": causal, "PP": ping_pong, "num_warps": 4}
    boxes = gluon_attention.blocks(128)
    scalars = {"M": "*fp32", "scale": "fp32"}
    return gluon_module(gluon_attention.attention, boxes, constants, dict.fromkeys(boxes, "fp16"), scalars)


@pytest.mark.parametrize(("b_t", "element"), [(False, "fp16"), (True, "fp16"), (True, "fp8e4nv")])
def test_hand_written_gemm_is_proved(b_t: bool, element: str) -> None:
    verdict = check_barriers(gemm(b_t, element))
    assert passes(verdict), verdict


@pytest.mark.parametrize("ping_pong", [False, True])
@pytest.mark.parametrize("causal", sample([True, False], 3))
def test_hand_written_attention_is_proved_and_says_what_it_assumes(causal: bool, ping_pong: bool) -> None:
    verdict = check_barriers(attention(causal, ping_pong))
    assert passes(verdict), verdict
    if not causal:
        assert any("assume" in text for text in verdict.assumptions)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("variant", ["1 part", "2 parts", "1 and 2 parts", "TMA"])
def test_hand_written_backward_attention_is_proved(variant: str, causal: bool) -> None:
    verdict = check_barriers(backward_attention(variant, causal))
    assert isinstance(verdict, Proved), verdict
