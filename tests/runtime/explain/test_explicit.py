"""Explanations of Gluon kernels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tawa
from tawa.bridge.triton.signature import Signature
from tawa.errors import PlanError
from tawa.machine.machines import SM_100
from tawa.runtime.explain import explaining
from tawa.runtime.explain.explaining import compile_with_options
from tawa.runtime.explain.explanation import Explanation
from tawa.runtime.explain.explicit import barrier_text
from tests.bridge.faulty_gluon import tensor_memory, wgmma
from tests.rings import kernels
from tests.support.verdicts import passes

pytestmark = pytest.mark.usefixtures("own_cache")

RACE = "released before it is read"


def explained(fault: str = "none", kernel: Any = kernels.squares, **options: Any) -> Explanation:
    return tawa.explain(kernel, "x=*fp32, o=*fp32, count=i32", {"D": 2, "FAULT": fault}, **options)


@pytest.fixture(scope="module")
def products() -> Explanation:
    tile = "tensordesc<fp16[64,64]>"
    constants = {"BK": 64, "D": 3, "P": 1, "FAULT": "none"}
    return tawa.explain(kernels.products, f"a=tensordesc<fp16[128,64]>, b={tile}, c={tile}, K=i32", constants)


def test_partitions_are_named_as_in_the_source(products: Explanation) -> None:
    assert products.program is not None
    assert products.program.functions == {"default": "multiply", "partition0": "multiply", "partition1": "load_tiles"}
    assert products.program.who(("default", "partition1")) == "multiply (default), load_tiles"


def test_the_table_says_it_in_words(products: Explanation) -> None:
    text = " ".join(str(products).replace("│", " ").split())
    said, _, found = text.partition("; its protocol is ")
    assert said.endswith("products: written in Gluon, compiled as it is") and passes(found)
    assert "a slot of ring0 to be empty (kernels.py:" in text and "all wgmmas but 1 (kernels.py:" in text
    assert "TMA of" in text and "2 arrivals" in text and "73728 for rings, 16384 for other buffers" in text


def test_json_has_the_partitions_rings_and_waits(products: Explanation) -> None:
    data = json.loads(products.to_json())
    assert data["decision"] == "explicit" and passes(data["verdict"]) and data["plan"] is None
    ring, producer = data["rings"][0], data["partitions"][2]
    assert (ring["depth"], ring["bytes"], ring["filled_by"]) == (3, 73728, "TMA")
    assert ring["writers"] == ["partition1"] and ring["full"]["bytes"] == 24576
    assert (producer["function"], producer["registers"]) == ("load_tiles", 24)
    assert producer["waits"][0]["for"] == "empty" and producer["waits"][0]["target"] == "ring0"


def test_a_refuted_protocol_is_explained_with_its_place() -> None:
    found = explained(RACE)
    assert found.verdict is not None and found.verdict["verdict"] == "refuted"
    assert found.location is not None and found.location.startswith(str(Path(kernels.__file__)))
    text = str(found)
    assert "its protocol is refuted" in text and "tawa verify shows the run that goes wrong" in text


def test_a_ring_whose_slots_nobody_releases_says_so() -> None:
    found = explained("never released").program
    assert found is not None and not found.program.signals
    (ring,) = found.program.rings
    assert barrier_text(ring.full) == "1 arrival" and barrier_text(ring.empty) == "1 arrival by nobody"


def test_a_kernel_under_tawa_is_explained_from_its_record(driver: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.runtime.test_gluon import compiled

    kernel = tawa.jit(kernels.squares)
    compiled(kernel, RACE)
    monkeypatch.setattr("tawa.runtime.explain.explicit.check_module", None)  # it was checked in the compile
    found = tawa.explain(kernel)
    assert found.verdict is not None and found.verdict["verdict"] == "refuted"
    assert found.compile_ms is not None and found.program is not None and len(found.program.program.rings) == 1


def test_without_checks_the_verdict_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAWA_VERIFY", "off")
    found = explained()
    assert found.verdict is None and "its protocol is not checked" in found.headline


def test_without_the_source_a_partition_has_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tawa.runtime.explain.explicit.function_around", lambda file, line: None)
    found = explained().program
    assert found is not None and found.who(("default", "partition0")) == "default, partition0"


def test_options_are_refused() -> None:
    with pytest.raises(PlanError, match="squares is a Gluon kernel"):
        explained(aref_depth=3)
    assert explained(maxnreg=64).program is not None


def test_the_gpu_is_looked_for_only_if_the_first_one_refuses_the_kernel(monkeypatch) -> None:
    pointer = Signature({"out": "*fp32"}, {}, {})
    assert compile_with_options(tensor_memory, pointer, {}).metadata.target.arch == 100
    monkeypatch.setattr(explaining, "lower_gluon", None)
    assert compile_with_options(wgmma, pointer, {}).metadata.target.arch == 90
    assert compile_with_options(tensor_memory, pointer, {}, target=SM_100).metadata.target.arch == 100
