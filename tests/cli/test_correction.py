"""Attention with 128 rows on Blackwell, as a user meets it: a partition of its own rewrites the accumulator."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tawa.plan import Plan
from tests.cli.conftest import KERNELS, Tawa
from tests.runtime.page.reading import Page

pytestmark = pytest.mark.usefixtures("without_ptx")

SIZES = ["--arch", "sm_100", "--const", "BM=128,BN=64,D=64"]
TILE, KEYS = "tensordesc<fp16[128,64]>", "tensordesc<fp16[64,64]>"
ATTENTION = [
    f"{KERNELS}:attention", "--sig", f"q={TILE}, k={KEYS}, v={KEYS}, o={TILE}, scale=fp32, S=i32:16", *SIZES,
]  # fmt: skip
RUN = [
    f"{KERNELS}:attention", *SIZES, "--grid", "1", "--arg", "scale=0.2", "--arg", "S=192",
    *(part for name, made, box in (("q", "randn:128x64", "128x64"), ("o", "nan:128x64", "128x64"),
                                   ("k", "randn:192x64", "64x64"), ("v", "randn:192x64", "64x64"))
      for part in ("--arg", f"{name}={made}:f16:box={box}")),
]  # fmt: skip
ROWS = ["producer", "mma", "consumer", "correction", "TMA", "tensor cores"]


def test_an_explanation_names_the_partition_and_what_it_is_sent(tawa_json) -> None:
    found = tawa_json("explain", *ATTENTION)
    assert "; it, one consumer and one correction take turns with tensor0 with D = 1, " in found["reason"]
    assert found["reason"].endswith(
        "; a correction rewrites accumulators by what its consumer sends through factor0 with D = 2"
    )
    said = {it["field"]: (it["value"], it["reason"]) for it in found["decisions"]}
    assert said["correction"][0] == "a partition of its own"
    assert said["partitions.correction"][0].startswith("4 warps, ")
    assert said["rings.factor0"] == (
        "D = 2 of (128xf32), 1 KiB", "the consumer computes the next one while this one is used"
    )  # fmt: skip
    turns = [reason for field, (_, reason) in said.items() if field.startswith("rings.tensor")]
    assert sum("the dots and the correction take turns" in it for it in turns) == 1
    assert sum("the dots and the consumer take turns" in it for it in turns) == 1


def test_without_it_nothing_speaks_of_it(tawa_json) -> None:
    found = tawa_json("explain", *ATTENTION, "--mapping", '[kernel]\nname = "attention"\n[groups]\ncorrection = false')
    assert "correction" not in found["reason"] and "factor0" not in json.dumps(found["rings"])
    assert not any(it["field"] == "partitions.correction" for it in found["decisions"])


def test_the_printed_mapping_has_its_rings_and_gives_the_same_plan(tawa: Tawa, tmp_path: Path) -> None:
    mapping = tmp_path / "attention.toml"
    mapping.write_text(tawa("explain", *ATTENTION, "--emit", "mapping").stdout)
    assert "[rings.factor0]\nslots = 2" in mapping.read_text()
    plans = [
        Plan.from_json(tawa("compile", *ATTENTION, *more, "--emit", "plan").stdout)
        for more in ([], ["--mapping", str(mapping)])
    ]
    assert replace(plans[0], launches=None) == replace(plans[1], launches=None)  # an explanation knows no launch


@pytest.mark.parametrize(
    ("ring", "error"),
    [
        ('{"name": "factor0", "depth": 0}', "D = 0 in factor0\n  cure: D of at least 1, or 2 as usual"),
        ('{"name": "factor0", "copies": 2}', "the Plan has copies=2 in factor0\n  cure: copies=1"),
        ('{"name": "factor1", "depth": 2}', "the Plan has rings {'factor1': ()}, the kernel has "),
    ],
)
def test_a_ring_that_cannot_be_pinned_so_is_refused(tawa: Tawa, ring: str, error: str) -> None:
    result = tawa("compile", *ATTENTION, "--plan", f'{{"version": 7, "rings": [{ring}]}}')
    assert result.exit_code == 2 and error in result.stderr


def test_a_pinned_depth_of_what_it_is_sent_is_kept(tawa: Tawa) -> None:
    pinned = '{"version": 7, "rings": [{"name": "factor0", "depth": 3}]}'
    text = tawa("compile", *ATTENTION, "--plan", pinned, "--emit", "aref").stdout
    assert '<{name = "factor0", fill = "threads", reader = "correction"}> : () -> !aref.ring<3 x' in text


def test_a_timeline_shows_its_row_and_accesses_of_tensor_memory(tawa: Tawa, tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    result = tawa("simulate", *RUN, "--timeline", str(path))
    assert result.exit_code == 0 and "correction waits " in result.stdout, result.stderr
    events = [it for it in json.loads(path.read_text())["traceEvents"] if it["pid"] == 1]
    rows = {it["tid"]: it["args"]["name"] for it in events if it["name"] == "thread_name"}
    assert list(rows.values()) == ROWS
    kinds = {(rows[it["tid"]], it["cat"]) for it in events if it["ph"] == "X"}
    assert {row for row, kind in kinds if kind == "tensor memory"} == {"consumer", "correction"}
    assert ("tensor cores", "wgmma") in kinds and ("consumer", "epilogue") not in kinds
    assert ("correction", "epilogue") in kinds


def test_a_page_shows_the_partition_by_line_ring_and_timeline(tawa: Tawa, tmp_path: Path) -> None:
    path = tmp_path / "attention.html"
    assert tawa("explain", *ATTENTION[:1], *RUN[1:], "--html", str(path)).exit_code == 0
    page = Page(path.read_text())
    assert page.data["charts"]["timeline"]["panels"][1]["rows"] == ROWS
    rings = " ".join(page.sections["rings"].split())
    assert "correction waits until a slot is full" in rings
    assert "consumer waits until a slot is empty" in rings
    source = page.sections["source"]
    assert "correction: " in source and "tensor memory" in source


def test_the_gluon_file_runs_without_tawa_and_is_proved(tawa: Tawa, tmp_path: Path) -> None:
    path = tmp_path / "emitted.py"
    path.write_text(tawa("compile", *ATTENTION, "--emit", "gluon").stdout)
    text = path.read_text()
    body = text[text.index("def correction(") : text.index("def mma(")]
    assert "factor_ring.get(" in body and "tma_store(o, " in body
    assert "(correction, (acc_ring, factor_ring, " in text and "tma_store(" not in text[: text.index("def correction(")]
    alone = "import sys; sys.modules['tawa'] = None; import emitted; assert emitted.attention and emitted.launch"
    subprocess.run([sys.executable, "-c", alone], cwd=tmp_path, check=True, timeout=120)
    signature = [it for it in ATTENTION[1:] if "BM=" not in it and it != "--const"]
    result = tawa("verify", f"{path}:attention", *signature)
    assert result.exit_code == 0 and result.stdout.startswith("proved: "), result.stdout + result.stderr
