"""The points in the committed results of the benches that time several forms of one kernel side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from bench.harness import ROOT
from bench.model.points import Point
from tests.cases.case import Case

_RESULTS = ROOT / "bench" / "results"


def earlier_points() -> Iterator[Point]:
    """All points that can be rebuilt."""
    yield from _small()
    yield from _matrix()
    yield from _persistent()
    yield from _ablation()
    yield from _attention()
    yield from _gemm()
    yield from _regret()


def _rows(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((_RESULTS / f"{name}.json").read_text())["rows"]
    return [row for row in rows if row["median_ms"]]


def _point(source: str, case: Case, row: dict[str, Any], options: dict[str, Any] | None, told: str = "",
           kernel: str = "") -> Point:  # fmt: skip
    tile = "x".join(str(case.constexprs[name]) for name in ("BM", "BN", "BK") if name in case.constexprs)
    sizes = ", ".join(f"{name}={value}" for name, value in case.sizes.items())
    name = (
        kernel or f"{case.kernel.__name__} {row['case'].get('dtype', '')} {tile} w{case.num_warps} s{case.num_stages}"
    )
    return Point(source, name, sizes, row["candidate"], case, options, row["median_ms"] * 1e3, told, row["case"])


def _small() -> Iterator[Point]:
    from bench.pointers.small import WAYS
    from tests.cases.pointers import gemm
    from tests.cases.pointers.builders import gemm_case

    for row in _rows("small"):
        about = row["case"]
        *tile, warps, stages = about["tile"]
        case = gemm_case("small", gemm.gemm_tutorial, dtype=about["dtype"], b_t=about["b_t"], tile=tuple(tile),
                         GROUP_M=8,
                         warps=warps, stages=stages, sizes={name: about[name] for name in "MNK"})  # fmt: skip
        stock = row["candidate"] == "stock Triton"
        yield _point("small", case, row, None if stock else WAYS[row["candidate"]], about["plan"])


def _matrix() -> Iterator[Point]:
    from bench.gemm.matrix import large
    from tests.cases.gemm.cases import CASES

    known = {case.name: case for case in CASES}
    for row in _rows("gemm_matrix_all"):
        if (case := known.get(row["case"]["name"])) is not None:
            stock = row["candidate"] == "stock Triton"
            yield _point("gemm_matrix_all", large(case), row, None if stock else {"only_if_faster": False},
                         kernel=case.name)  # fmt: skip


def _persistent() -> Iterator[Point]:
    from bench.persistent import STOCK, WAYS, calls_case

    for row in _rows("persistent"):
        about = row["case"]
        case = calls_case(about, about.get("S", about.get("K")))
        stock = row["candidate"] == STOCK
        yield _point("persistent", case, row, None if stock else WAYS[row["candidate"]])


def _ablation() -> Iterator[Point]:
    from tests.cases.gemm.cases import CASES

    base = next(case for case in CASES if case.name == "tile_fp16_nn")
    for row in _rows("ablation"):
        about = row["case"]
        label = str(about.get("configuration", ""))
        if " tile " not in label:
            continue
        kind, _, tile, warps, last = label.split()
        bm, bn, bk = map(int, tile.split("x"))
        stages = int(last[1:]) if kind == "stock" else 3
        case = replace(base, constexprs={**base.constexprs, "BM": bm, "BN": bn, "BK": bk, "GROUP_M": 8},
                       sizes={**base.sizes, "M": about["M"], "N": about["N"], "K": about["K"]},
                       num_warps=int(warps[1:]), num_stages=stages)  # fmt: skip
        options = None if kind == "stock" else {
            "enable_warp_specialization": True, "aref_depth": about["D"], "mma_depth": about["P"]
        }  # fmt: skip
        name = f"gemm_tile fp16 {tile} {warps}"
        yield _point("ablation", case, row, options, kernel=name)


def _gemm() -> Iterator[Point]:
    from bench.gemm.candidates import families
    from tests.cases.gemm.cases import CASES

    known = {case.name: case for case in CASES}
    bases = {("tile", True): "tile_fp16_nt", ("tile", False): "tile_fp16_nn", ("persistent", False): "persistent_nn",
             ("persistent", True): "persistent_fp8e4nv"}  # fmt: skip
    for row in _rows("gemm"):
        about = row["case"]
        family = families()[about["family"]]
        found = next((it for it in family.configurations if it.label == about.get("configuration")), None)
        if found is None or found.kind == "gluon" or (found.kernel, family.b_t) not in bases:
            continue
        base = known[bases[found.kernel, family.b_t]]
        blocks = {"BM": found.BM, "BN": found.BN, "BK": found.BK, "GROUP_M": 8}
        sizes = {name: about[name] for name in "MNK"} | ({"PROGRAMS": 132} if found.kernel == "persistent" else {})
        options = None if found.kind == "stock" else {
            "enable_warp_specialization": True, "aref_depth": found.D, "mma_depth": found.P
        }  # fmt: skip
        constexprs = {**base.constexprs, **blocks} | (
            {"FLATTEN": found.flatten} if "FLATTEN" in base.constexprs else {}
        )
        case = replace(base, constexprs=constexprs, sizes={**base.sizes, **sizes}, num_warps=found.num_warps,
                       num_stages=found.num_stages)  # fmt: skip
        yield _point("gemm", case, row, options, kernel=f"gemm {about['family']}")


def _attention() -> Iterator[Point]:
    from bench.attention.candidates import Shape, configurations, make_case

    for row in _rows("attention"):
        about = row["case"]
        if row["candidate"] not in ("stock Triton", "Tawa, best configuration"):
            continue
        known = {it.label: it for it in configurations(about["dtype"], about["d"], about["causal"])}
        found = known.get(about.get("configuration", ""))
        if found is None or found.flat or found.kind not in ("stock", "tawa"):
            continue
        shape = Shape(about["dtype"], about["d"], about["causal"], about["S"], about["B"] * about["S"])
        options = None if found.kind == "stock" else dict(found.options)
        name = f"attention {about['dtype']} d{about['d']} causal={about['causal']}"
        yield _point("attention", make_case(shape, found), row, options, kernel=name)


def _regret() -> Iterator[Point]:
    from bench.regret.problems import problems

    known = {case.name: (kernel, case) for kernel, case in problems()}
    for row in _rows("regret"):
        about = row["case"]
        if about["case"] not in known or row["candidate"] == "automatic":  # whose launches choose between kernels
            continue
        kernel, case = known[about["case"]]
        stock = row["candidate"] == "stock"
        if stock or about["plan"] is not None:
            yield Point("regret", kernel, about["case"], row["candidate"], case, None if stock else about["options"],
                        row["median_ms"] * 1e3, plan=about["plan"])  # fmt: skip
