"""Every refusal names a line, of the kernel or of the mapping, the dependence, and the nearest legal choice."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl

import tawa
from tawa.errors import TawaError
from tests.mapping import kernels, test_unmet

pytestmark = pytest.mark.usefixtures("without_ptx")

ATTEND = (kernels.attend, kernels.ATTEND, kernels.BLOCKS, 8)
BESIDE = (test_unmet.beside, test_unmet.TYPES, {}, 4)
PRODUCT = (test_unmet.product, test_unmet.GEMM, {}, 4)
TILES = "a=*fp16, b=*fp16, c=*fp16, K=i32:16"
KERNEL, FILE = r"\w\.py:\d+", r"a\.toml:\d+"


@triton.jit
def pointers(a, b, c, K):
    at = tl.arange(0, 64)
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, 64):
        x = tl.load(a + at[:, None] * K + k + at[None, :])
        acc = tl.dot(x, tl.load(b + (k + at)[:, None] * 64 + at[None, :]), acc)
    tl.store(c + at[:, None] * 64 + at[None, :], acc.to(tl.float16))


@triton.jit
def no_dot(x, y):
    tl.store(y + tl.arange(0, 64), tl.load(x + tl.arange(0, 64)))


@triton.jit
def gated(a, b, c, K):
    g = tl.zeros((64, 64), tl.float32)
    u = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, 64):
        x = a.load([0, k])
        g = tl.dot(x, b.load([k, 0]), g)
        u = tl.dot(x, b.load([k, 64]), u)
    c.store([0, 0], (g * u).to(tl.float16))


@triton.jit
def nested(a, b, c, K):
    acc = tl.zeros((64, 64), tl.float32)
    for m in range(0, K, 64):
        x = a.load([0, m])
        for k in range(0, K, 64):
            acc = tl.dot(x, b.load([k, 0]), acc)
    c.store([0, 0], acc.to(tl.float16))


GATED = (gated, kernels.GEMM, {}, 4)
NESTED = (nested, kernels.GEMM, {}, 4)
POINTERS = (pointers, TILES, {}, 4)
NO_DOT = (no_dot, "x=*fp16, y=*fp16", {}, 4)

REFUSALS: tuple[tuple[Any, str, str, str], ...] = (
    # what is wrong in the file alone
    (ATTEND, "\n[groups", r"a\.toml:2", ""),
    (ATTEND, "[groups]\ncount = ", r"a\.toml:2", ""),
    (ATTEND, "\n[group]\ncount = 1", r"a\.toml:2", ""),
    (ATTEND, "\n[groups]\ncounts = 1", r"a\.toml:3", ""),
    (ATTEND, "\n[groups]\ncount = 0", r"a\.toml:3", ""),
    (ATTEND, '[operands."k"]\n\nring = 1.5', r"a\.toml:3", ""),
    (ATTEND, 'operands.k.path = "tna"', r"a\.toml:1", ""),
    (ATTEND, "operands.k = { ring = 0 }", r"a\.toml:1", ""),
    (ATTEND, "groups = 3", r"a\.toml:1", ""),
    (ATTEND, "[loops]\nn = 3", r"a\.toml:2", ""),
    (ATTEND, '[loops.n]\ncarry = { p = "float31" }', r"a\.toml:2", ""),
    (ATTEND, "[groups]\nping_pong_sections = 1", r"a\.toml:2", ""),
    # names that the kernel does not have
    (ATTEND, "[operands.kk]\nring = 2", FILE, KERNEL),
    (ATTEND, '[operands."k.1"]\nring = 2', FILE, KERNEL),
    (ATTEND, "[stores.q]\nstaged = true", FILE, KERNEL),
    (ATTEND, "[loops.m]\nstages = 1", FILE, KERNEL),
    (ATTEND, '[loops."line 3"]\nstages = 1', FILE, KERNEL),
    (ATTEND, "[rings.ring9]\nslots = 2", FILE, "ring9"),
    (ATTEND, "[partitions.produce]\nwarps = 1", FILE, KERNEL),
    (ATTEND, "[partitions.consumer1]\nregisters = 64\n[groups]\ncount = 1", FILE, "consumer1"),
    (ATTEND, "[partitions.converter]\nregisters = 64", FILE, "converter"),
    (ATTEND, '[kernel]\nname = "other"', FILE, KERNEL),
    (ATTEND, '[kernel]\nsignature = "q=*fp16"', FILE, KERNEL),
    (ATTEND, '[kernel]\nunit_strides = ["M"]', FILE, KERNEL),
    (ATTEND, '[groups]\nsplit = "rows of k"', FILE, KERNEL),
    # words that contradict each other
    (ATTEND, "[kernel]\nspecialised = false\n[groups]\ncount = 2", FILE, ""),
    (ATTEND, '[loops.n]\nstages = 3\nsteps = ["0: k = get"]', FILE, KERNEL),
    (ATTEND, '[loops.n]\nsteps = ["k = get"]', FILE, KERNEL),
    (ATTEND, '[loops."*"]\ncarry = { p = "any" }', FILE, KERNEL),
    (ATTEND, '[operands."*"]\npath = "tma"', FILE, KERNEL),
    (ATTEND, '[stores."*"]\npath = "tma"', FILE, KERNEL),
    (ATTEND, "[groups]\nping_pong_sections = [[1]]\nping_pong = true", FILE, KERNEL),
    # dependences and resources
    (ATTEND, '[loops.n]\nsteps = ["0: k = get"]', KERNEL, "missing"),
    (ATTEND, "[loops.n]\nin_flight = 3\n[operands.k]\nring = 2", KERNEL, "k, loop n"),
    (ATTEND, "[loops.n]\nin_flight = 2\n[operands.k]\nring = 4", KERNEL, "loop n"),
    (ATTEND, '[loops.n]\nstages = 9\n[operands."*"]\nring = 2', KERNEL, "stages"),
    (ATTEND, '[loops.n]\nstages = 2\ncarry = { x = "float32" }', KERNEL, "does not carry x"),
    (ATTEND, "[loops.n]\nkept = [7]", KERNEL, "dot 7"),
    (ATTEND, "[loops.n]\njoined = true\nstages = 1", KERNEL, "loop n"),
    (ATTEND, "[operands.k]\nring = 40", KERNEL, "k, loop n"),
    (ATTEND, '[operands."*"]\nring = 40', f"{KERNEL}|{FILE}", "ring0"),
    (ATTEND, "[rings.ring0]\nslots = 40", KERNEL, "ring0"),
    (NESTED, '[operands.a]\nring = "one"\n[operands.b]\nring = "one"', KERNEL, "b, loop k"),
    (ATTEND, "[operands.k]\nprefetched = true", KERNEL, "k, loop n"),
    (ATTEND, "[operands.v]\nhoisted = true", KERNEL, "v, loop n"),
    (ATTEND, '[operands.k]\ntransposed = "converter"', KERNEL, "k, loop n"),
    (ATTEND, "[operands.k]\nreordered = true", KERNEL, "k, loop n"),
    (ATTEND, '[operands.k]\nrows = "for next dot"', KERNEL, "k, loop n"),
    (ATTEND, '[operands.k]\npath = "cp.async"', KERNEL, "k, loop n"),
    (ATTEND, '[operands.k]\npath = "tma in kernel"', FILE, KERNEL),
    (ATTEND, '[operands.k]\npath = "consumer"\n[operands.v]\npath = "consumer"', f"{KERNEL}|{FILE}", "producer"),
    (ATTEND, '[operands.v]\nmemory = "registers"', FILE, KERNEL),
    (ATTEND, '[stores.o]\npath = "pointers"', FILE, KERNEL),
    (ATTEND, "[stores.o]\nslices = 7", f"{KERNEL}|{FILE}", "o"),
    (ATTEND, "[stores.o]\nbuffers = 2", f"{KERNEL}|{FILE}", "o"),
    (ATTEND, "[stores.o]\nstaged = false\nslices = 2", f"{KERNEL}|{FILE}", "o"),
    (ATTEND, "[partitions.producer]\nregisters = 25", FILE, "producer"),
    (ATTEND, "[partitions.producer]\nwarps = 3", FILE, "producer"),
    (ATTEND, "[partitions.consumer]\nwarps = 2", FILE, "consumer"),
    (ATTEND, "[partitions.consumer]\nregisters = 256\n[kernel]\nmax_registers = 128", FILE, "registers"),
    (ATTEND, "[kernel]\nmax_registers = 25", FILE, "max_registers"),
    (ATTEND, "[kernel]\nctas_per_sm = 9", FILE, "ctas_per_sm"),
    (ATTEND, "[groups]\ncount = 3", FILE, "3 groups"),
    (ATTEND, "[groups]\ncount = 1\nping_pong = true", FILE, "ping_pong"),
    (ATTEND, "[groups]\nping_pong = true\nping_pong_sections = [[5, 6]]", f"{KERNEL}|{FILE}", "section"),
    (ATTEND, '[groups]\ncount = 2\nsplit = "columns"', KERNEL, ""),
    (ATTEND, "[kernel]\nprograms_per_tile = 2", KERNEL, ""),
    (ATTEND, '[kernel]\norder = "hilbert"', f"{KERNEL}|{FILE}", "order"),
    (ATTEND, '[kernel]\ntiles = "dynamic"', f"{KERNEL}|{FILE}", "tiles"),
    (POINTERS, '[operands.a]\npath = "registers"\n[operands.b]\ntransposed = "converter"', KERNEL, "b, loop k"),
    (POINTERS, '[operands.a]\npath = "cp.async"\n[stores.c]\npath = "tma"', KERNEL, "store c"),
    (POINTERS, '[kernel]\nunit_strides = ["K"]', f"{KERNEL}|{FILE}", "K"),
    (PRODUCT, "[loops.k]\nstages = 5\nin_flight = 1", KERNEL, "loop k"),
    (PRODUCT, '[loops.k]\ncarry = { acc = "float32" }', KERNEL, "loop k"),
    (GATED, '[loops.k]\nin_flight = 0\ncarry = { u = "float32" }', KERNEL, "in flight together"),
    (NO_DOT, "[groups]\ncount = 1", KERNEL, "tl.dot"),
)  # fmt: skip


@pytest.mark.parametrize("kernel, text, place, named", REFUSALS, ids=lambda it: it if isinstance(it, str) else None)
def test_a_refusal_names_a_line_what_it_is_about_and_a_legal_choice(
    kernel: Any, text: str, place: str, named: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.toml"
    file.write_text(text)
    function, types, blocks, num_warps = kernel
    with pytest.raises(TawaError) as caught:
        tawa.explain(function, types, blocks, num_warps=num_warps, mapping=file)
    said, _, cure = str(caught.value).replace("\n  cure: ", "; cure: ").partition("; cure: ")
    assert re.search(place, said), said
    assert re.search(named, said), said
    assert cure.strip(), said
