"""The figures of README and docs by name, each computed from result files alone (see `bench.figures`).

A figure is a text as on the page, ``1.14 to 1.42`` or ``719``; a table is a list of lines. Ratios are of rates: Tawa's
rate over that of another candidate.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from bench import gains, verdict_table
from bench.attention import page_tables as attention_pages
from bench.attention import report as attention_report
from bench.attention.candidates import V_AS_ROWS
from bench.foreign import page_tables as foreign
from bench.harness import RESULTS, Row, read
from bench.products import page_tables as products
from bench.report import BEST_STOCK, TAWA, by_case

Rates = dict[tuple[object, ...], dict[str, float]]

CUBLAS_GROUPS = "cuBLAS, one group after the other"
SAME = "stock Triton, same configuration"
WEIGHTS = "pointers_weights_i8_weights_fp8e4nv"

# How the table in docs/evidence.md groups the reasons of `mutations.json`.
MUTANTS = {
    "pure": ("pure",),
    "unordered": ("unordered",),
    "idempotent": ("idempotent",),
    "last release": ("last release",),
    "orders more": ("orders more",),
    "deep enough": ("deep enough",),
    "patient": ("patient",),
    "each releases": ("each releases",),
    "empty slot": ("empty slot",),
    "covered": ("covered",),
    "not in the first trip": ("not in the first trip",),
    "filled once": ("filled once", "same dots", "same parity"),
    "stores and tokens": ("store wait", "no store yet", "never used", "token"),
    "random runs": ("other wait", "implied", "last loop"),
}

FLEX = ("full", "causal", "window", "documents", "distance", "cap")
FOREIGN = ("kernels", "versions", "passed", "refuted", "unknown")
FOREIGN_FAULTS = ("places", "refuted", "unknown", "simulated")


class Missing(Exception):
    """The results from which a figure is computed are missing or wrong."""


@functools.cache
def rows(name: str) -> tuple[Row, ...]:
    """The rows of ``bench/results/NAME.json``; raises Missing."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        raise Missing(f"there is no {path.name}")
    return tuple(read(path)[1])


def rates(name: str, keys: Sequence[str], **wanted: object) -> Rates:
    """Rates in TFLOP/s by the values of `keys` in the case, then by candidate, of the rows whose case has `wanted`."""
    found: Rates = {}
    for row in rows(name):
        if row.tflops and all(row.case.get(key) == value for key, value in wanted.items()):
            found.setdefault(tuple(row.case.get(key) for key in keys), {})[row.candidate] = row.tflops
    if not found:
        raise Missing(f"{name}.json has no row with {wanted}")
    return found


def ratios(found: Rates, peer: str) -> list[float]:
    """Tawa's rate over a peer's, wherever both were timed."""
    values = [line["Tawa"] / line[peer] for line in found.values() if "Tawa" in line and peer in line]
    if not values:
        raise Missing(f"nothing was timed beside {peer}")
    return values


def span(values: Iterable[float], digits: int = 2) -> str:
    """The smallest and the largest of some values; one number if both print the same."""
    ordered = sorted(values)
    least, most = f"{ordered[0]:.{digits}f}", f"{ordered[-1]:.{digits}f}"
    return least if least == most else f"{least} to {most}"


def _best(found: Rates) -> str:
    return f"{max(line['Tawa'] for line in found.values()):.0f}"


# --- attention ---


def _attention(d: int, **wanted: object) -> Rates:
    return rates("attention", ("causal", "S"), **{"dtype": "fp16", "d": d, **wanted})


def _beside(peer: str, d: int, causal: bool) -> str:
    return span(ratios(_attention(d, dtype="bf16", causal=causal), peer))


def _fp8_beside_flash(d: int) -> str:
    """With V as rows, as FlashAttention-3 takes it."""
    found = _attention(d, dtype="fp8").values()
    return span(line[V_AS_ROWS] / line["FlashAttention-3"] for line in found if V_AS_ROWS in line)


def attention_tables() -> list[str]:
    """The tables of docs/attention.md."""
    about, found = read(RESULTS / "attention.json")
    return attention_report.page_tables(about, found)


def _step(step: str, causal: bool) -> str:
    found = rates("attention_ablation", (), causal=causal, step=step)
    return f"{next(iter(found[()].values())):.0f}"


# --- kernels that load through pointers ---

PROBLEM = ("family", "M", "K", "S", "GROUPS")


def _pointers(family: str) -> Rates:
    return rates("pointers", PROBLEM, family=family)


def _all_products() -> Rates:
    return {**_pointers("tutorial_nn"), **_pointers("tutorial_nt"), **_pointers("tutorial_fp8")}


def _weights(family: str) -> str:
    return span(ratios(rates(WEIGHTS, ("M",), family=family), "stock Triton"))


def _one(found: Rates) -> dict[str, float]:
    (line,) = found.values()
    return line


def _attention_through_pointers(causal: bool) -> dict[str, float]:
    return _one(_pointers("attention_causal" if causal else "attention_full"))


def _flex(*variants: str) -> list[float]:
    found = rates("flex", ("variant",))
    return [line["Tawa"] / line["stock"] for (variant,), line in found.items() if variant in variants]


def _template(form: str) -> str:
    """Stock's time over Tawa's."""
    for name in ("templates", "templates_persistent_scaled_grouped_weights"):
        times = {it.candidate: it.median_ms for it in rows(name) if it.case["form"] == form and it.median_ms}
        if {"stock", "Tawa"} <= set(times):
            return f"{times['stock'] / times['Tawa']:.2f}"
    raise Missing(f"no template {form} was timed")


def _small(size: int) -> str:
    found = rates("small", (), dtype="fp16", b_t=False, tile=[128, 64, 32, 4, 4], M=size, N=size, K=size)[()]
    return f"{found['Tawa, wherever legal'] / found['stock Triton']:.2f}"


RINGS = ("1_registers", "2_tma", "3_ring", "4_producer", "5_two_groups", "6_persistent", "cuBLAS",
         "attention_three_groups", "PyTorch")  # fmt: skip


def _ring(name: str) -> str:
    """The rate of a kernel of ``examples/rings``, or of its peer, in TFLOP/s."""
    return f"{next(it[name] for it in rates('rings', ('kernel',)).values() if name in it):.0f}"


EMITTED = ("cases", "same", "fallback", "refused", "left_out", "slowest")


def _emitted(kind: str) -> str:
    """Of ``bench.emitted``: numbers of cases by what became of them; the largest difference of times in percent."""
    checked = [it for it in rows("emitted") if not it.case["timed"]]
    same = [it.case.get("launch") for it in checked if it.case.get("bits") == "same"]
    errors = [str(it.error or "") for it in checked]
    numbers = {
        "cases": len(checked),
        "same": len(same) - same.count("fallback"),
        "fallback": same.count("fallback"),
        "refused": sum("Error: " in it for it in errors),
        "left_out": sum(it.startswith("left out") for it in errors),
    }
    if kind in numbers:
        return str(numbers[kind])
    times: dict[str, dict[str, float]] = {}
    for it in rows("emitted"):
        if it.case["timed"] and it.median_ms:
            times.setdefault(it.case["case"], {})[it.candidate] = it.median_ms
    return f"{max(abs(it['emitted'] / it['Tawa'] - 1) for it in times.values()) * 100:.1f}"


def _gradients() -> Rates:
    return rates("attention_backward", ("d", "S", "causal"))


def pointers_table() -> list[str]:
    """What docs/images/pointers.png does not show of `pointers.json`, its repeated part, and `flex.json`."""
    weights = {**rates(WEIGHTS, ("family", "M"), family="weights_i8"), **rates(WEIGHTS, ("family", "M"))}
    groups = "8 groups, S = 4096"
    flex = {
        key: {"stock Triton": line["stock"], "Tawa": line["Tawa"]} for key, line in rates("flex", ("variant",)).items()
    }

    def at(found: Rates, **wanted: object) -> dict[str, float]:
        return next(
            line for key, line in found.items() if dict(zip(PROBLEM, key, strict=True)).items() >= wanted.items()
        )

    batch = "B 4, H 16, S 4096"
    table: list[tuple[str, str, Mapping[str, float]]] = [
        ("attention through pointers, d = 128, full", batch, _attention_through_pointers(False)),
        ("the same, causal", batch, _attention_through_pointers(True)),
        ("int8 weights, fp16 activations", "4096 × 8192 × 8192", weights["weights_i8", 4096]),
        ("the same", "512 × 8192 × 8192", weights["weights_i8", 512]),
        ("fp8 weights, fp16 activations", "4096 × 8192 × 8192", weights["weights_fp8e4nv", 4096]),
        ("the same", "512 × 8192 × 8192", weights["weights_fp8e4nv", 512]),
        ("grouped, tutorial 08, pointers", groups, at(_pointers("grouped"), GROUPS=8)),
        ("grouped, tutorial 08, descriptors", groups, at(_pointers("grouped_tma"), GROUPS=8)),
        ("FlexAttention under torch.compile, bf16, full", f"{batch}, d 128", flex["full",]),
        ("the same, causal", f"{batch}, d 128", flex["causal",]),
        ("the same, sliding window", f"{batch}, d 128", flex["window",]),
        ("the same, documents", f"{batch}, d 128", flex["documents",]),
        ("the same, a bias that grows with distance", f"{batch}, d 128", flex["distance",]),
    ]  # fmt: skip
    lines = ["| kernel | problem | stock | Tawa | ratio |", "|---|---|---|---|---|"]
    for kernel, problem, line in table:
        stock, ours = line["stock Triton"], line["Tawa"]
        lines.append(f"| {kernel} | {problem} | {stock:.0f} | {ours:.0f} | {ours / stock:.2f} |")
    return lines


# --- other people's kernels ---


@functools.cache
def _corpus() -> tuple[list[float], list[float]]:
    """Speed-ups of kernels in the configurations that stock chooses: usual ones, and those above `UNUSUAL`."""
    from bench.corpus.report.kernels import UNUSUAL, applied
    from bench.corpus.report.result_file import read as read_corpus

    found = [it.ratio for it in applied(read_corpus(RESULTS / "corpus.json")[1])]
    return [it for it in found if it < UNUSUAL], [it for it in found if it >= UNUSUAL]


def _products(name: str, candidate: str, **wanted: object) -> str:
    """The rates of all timed problems of a result file over those of another candidate, from the worst to the best."""
    found = [
        (row.median_ms or 0.0) / (case[TAWA].median_ms or 1.0)
        for case in by_case(rows(name))
        for row in (case.get(candidate),)
        if row is not None and all(row.case.get(key) == value for key, value in wanted.items())
    ]
    if not found:
        raise Missing(f"{name}.json has no times of {candidate}")
    return span(found)


def _slowest_operation() -> str:
    """The least speed-up of a whole operation of the corpus."""
    from bench.corpus.report.result_file import read as read_corpus
    from bench.corpus.report.summary import summarise

    return f"{summarise(read_corpus(RESULTS / 'corpus.json')[1]).worst:.2f}"


def missing_table() -> list[str]:
    """What the most expensive kernels of other packages lack."""
    from bench.corpus.report.missing import render

    return render(rows("missing")).splitlines()


def _missing(name: str) -> str:
    """A number of the kernels that lack something."""
    from bench.corpus.report.missing import figures

    return figures(rows("missing"))[name]


def _corpus_mean() -> str:
    from bench.corpus.report.results import geomean

    return f"{geomean(_corpus()[0]):.2f}"


def _int4(m: int) -> str:
    from bench.corpus.report.kernels import applied
    from bench.corpus.report.result_file import read as read_corpus

    for it in applied(read_corpus(RESULTS / "corpus.json")[1]):
        shape = it.result.shape
        if it.result.name == "GemLiteLinear" and shape.get("weights") == "int4" and shape.get("M") == m:
            return f"{it.ratio:.2f}"
    raise Missing(f"no GemLiteLinear with int4 weights and M = {m}")


# --- matrix products ---

GEMMS = (
    ("fp16, persistent", "persistent_fp16", (256, 1024, 4096, 16384)),
    ("fp8 e4m3, persistent", "persistent_fp8", (256, 1024, 4096, 16384)),
    ("fp16, one tile per program, B transposed", "tile_nt", (1024, 4096, 16384)),
    ("fp16, one tile per program, B row-major", "tile_nn", (256, 1024, 4096, 16384)),
)


def gemm_table() -> list[str]:
    """README's table: Tawa's rate, and its ratios."""
    peers = (SAME, "stock Triton", "cuBLAS", "Gluon by hand")
    lines = [
        "| kernel | K | TFLOP/s | stock, same | stock, best | cuBLAS | by hand in Gluon |",
        "|---|---|---|---|---|---|---|",
    ]
    for title, family, sizes in GEMMS:
        found = rates("gemm", ("K",), family=family)
        for k in sizes:
            line = found[k,]
            cells = " | ".join(f"{line['Tawa'] / line[peer]:.2f}" for peer in peers)
            lines.append(
                f"| {title if k == sizes[0] else ''} | {k} | {line['Tawa']:.0f} | {cells} |".replace("|  |", "| |")
            )
    return lines


def _short_tiles() -> str:
    """One tile per program and K up to 512, over the best of stock Triton."""
    found = [rates("gemm", ("K",), family="tile_nn")[k,] for k in (256, 512)]
    return span(line["Tawa"] / line["stock Triton"] for line in found)


def _matrix() -> dict[bool, list[float]]:
    """Of the cases that specialise: by whether automatic mode does it, Tawa's rate over stock Triton's."""
    found: dict[bool, list[float]] = {True: [], False: []}
    for (applied, _), line in rates("gemm_matrix", ("applied", "name")).items():
        found[bool(applied)].append(line["Tawa"] / line["stock Triton"])
    return found


def _shared_sm() -> str:
    """Ratios of the tiles that are declined because their CTAs share an SM, with operands of up to 16 bits."""
    names = {it.case["name"] for it in rows("gemm_matrix") if "2 CTAs share an SM" in str(it.case.get("reason"))}
    found = rates("gemm_matrix_all", ("name",))
    return span(line["Tawa"] / line["stock Triton"] for (name,), line in found.items() if name in names)


# --- right, and what it costs ---


def _checked(name: str) -> str:
    """How many problems were checked; raises Missing where one of them is wrong."""
    found = rows(name)
    wrong = [it for it in found if it.case.get("status") != "ok"]
    if wrong:
        raise Missing(f"{name}.json: {len(wrong)} problems are not right, the first: {wrong[0].case}")
    return str(len(found))


def _specialised(name: str) -> str:
    return str(sum(bool(it.case.get("specialised")) for it in rows(name)))


def _median(name: str, kernel: str, candidate: str) -> str:
    for row in rows(name):
        if (row.case.get("kernel"), row.candidate) == (kernel, candidate) and row.median_ms is not None:
            return f"{row.median_ms:.0f}"
    raise Missing(f"{name}.json has no {candidate} of {kernel}")


def _mutants(what: str, name: str = "mutations") -> str:
    found = [it.case for it in rows(name) if it.candidate == "check"]
    bad = sum(int(case[key]) for case in found for key in ("unexplained", "unknown", "missed"))
    if bad:
        raise Missing(f"{name}.json: {bad} mutants are neither refuted nor explained")
    return str(sum(int(case[what]) for case in found))


def _mutants_by_reason(names: Sequence[str], name: str = "mutations") -> str:
    counts: Counter[str] = Counter()
    for row in rows(name):
        counts.update(row.case.get("reasons", {}) if row.candidate == "check" else {})
    known = {it for group in MUTANTS.values() for it in group}
    if name == "mutations" and set(counts) - known:
        raise Missing(f"docs/evidence.md has no row for {sorted(set(counts) - known)}")
    return str(sum(counts[name] for name in names))


def _foreign(what: str, triton: bool = True) -> str:
    return foreign.verdicts(rows("foreign"), what, triton)


def _foreign_faults(what: str) -> str:
    return foreign.faults(rows("foreign"), what)


def _blackwell(what: str) -> str:
    return foreign.verdicts(rows("foreign_blackwell"), what)


def _blackwell_faults(what: str) -> str:
    return foreign.faults(rows("foreign_blackwell"), what)


def _blackwell_cycles(kernel: str, candidate: str) -> str:
    """Cycles of one CTA for 128 rows of queries, or for all tiles of a GEMM."""
    name, blocks = BLACKWELL_KERNELS[kernel]
    found = json.loads((RESULTS / "blackwell.json").read_text())["rows"]
    cycles = next(it["cycles"] for it in found if (it["kernel"], it["candidate"]) == (name, BLACKWELL[candidate]))
    return str(-(-cycles // blocks))


def _blackwell_matrix(what: str) -> str:
    """The right kernels of one Triton, or the runs of the simulator for all of them."""
    found = rows("blackwell_matrix")
    wrong = [row.case["name"] for row in found if row.error is not None]
    if wrong:
        raise Missing(f"blackwell_matrix.json: {', '.join(wrong)} are wrong")
    if what == "runs":
        return str(sum(row.case["runs"] for row in found))
    return str(sum(row.candidate == f"Triton {what}" for row in found))


BLACKWELL_KERNELS = {
    "gemm": ("GEMM, one tile a program", 1),
    "persistent": ("GEMM, persistent", 1),
    "one_group": ("attention, 128 rows a program", 1),
    "two_groups": ("attention, 256 rows a program", 2),
    "causal": ("attention, causal, 256 rows a program", 2),
}
"""The kernels of ``blackwell.json``, and how many blocks of 128 rows of queries their first CTA has."""
BLACKWELL = {"stock": "stock", "specialised": "stock, specialised", "tawa": "Tawa"}


def instructions_table() -> list[str]:
    """Instructions of the attention loop for each element of the scores, by kernel."""
    rows = read(RESULTS / "attention_instructions.json")[1]
    kernels = dict.fromkeys((row.case["dtype"], row.case["dim"]) for row in rows)
    heads = [f"fp8, d = {dim}" if dtype.startswith("fp8") else f"d = {dim}" for dtype, dim in kernels]
    lines = [f"| for each element of the scores | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for candidate in dict.fromkeys(row.candidate for row in rows):
        each = {(row.case["dtype"], row.case["dim"]): row.case["each"] for row in rows if row.candidate == candidate}
        lines.append(f"| {candidate} | {' | '.join(f'{each[it]:.2f}' for it in kernels)} |")
    return lines


FIGURES: dict[str, Callable[[], str]] = {
    "attention.d64.stock": lambda: span(ratios(_attention(64), "stock Triton")),
    "attention.d128.stock": lambda: span(ratios(_attention(128), "stock Triton")),
    **{
        f"attention.flash.d{d}.{mask}": functools.partial(_beside, "FlashAttention-3", d, mask == "causal")
        for d in (64, 96, 128, 256)
        for mask in ("full", "causal")
    },
    **{f"attention.flash.fp8.d{d}": functools.partial(_fp8_beside_flash, d) for d in (64, 128, 256)},
    "attention.cudnn.full": lambda: span(ratios(rates("attention", ("d", "S"), dtype="bf16", causal=False), "cuDNN")),
    "attention.cudnn.causal": lambda: span(ratios(rates("attention", ("d", "S"), dtype="bf16", causal=True), "cuDNN")),
    "attention.d128.best": lambda: _best(_attention(128)),
    "attention.d256.stock": lambda: span(ratios(_attention(256), "stock Triton")),
    "attention.held.full": lambda: _step("D = 2, waits held", False),
    "attention.held.causal": lambda: _step("D = 2, waits held", True),
    "attention.free.full": lambda: _step("D = 2, without ping-pong", False),
    "attention.free.causal": lambda: _step("D = 2, without ping-pong", True),
    "pointers.nn.stock": lambda: span(ratios(_pointers("tutorial_nn"), "stock Triton")),
    "pointers.nt.stock": lambda: span(ratios(_pointers("tutorial_nt"), "stock Triton")),
    "pointers.fp8.stock": lambda: span(ratios(_pointers("tutorial_fp8"), "stock Triton")),
    "pointers.cublas": lambda: span(ratios(_all_products(), "cuBLAS")),
    "pointers.fp8.best": lambda: _best(_pointers("tutorial_fp8")),
    "pointers.fp8.best.cublas": lambda: f"{max(it['cuBLAS'] for it in _pointers('tutorial_fp8').values()):.0f}",
    "pointers.grouped.cublas": lambda: f"{max(it[CUBLAS_GROUPS] for it in _pointers('grouped').values()):.0f}",
    "pointers.int8.stock": lambda: _weights("weights_i8"),
    "pointers.fp8_weights.stock": lambda: _weights("weights_fp8e4nv"),
    "pointers.attention.full": lambda: span(ratios(_pointers("attention_full"), "stock Triton")),
    "pointers.attention.causal": lambda: span(ratios(_pointers("attention_causal"), "stock Triton")),
    "pointers.attention.full.rate": lambda: f"{_attention_through_pointers(False)['Tawa']:.0f}",
    "pointers.attention.full.single": lambda: f"{_attention_through_pointers(False)['Tawa, one tile a program']:.0f}",
    "pointers.attention.full.cudnn": lambda: f"{_attention_through_pointers(False)['PyTorch attention']:.0f}",
    "pointers.attention.causal.cudnn": lambda: f"{_attention_through_pointers(True)['PyTorch attention']:.0f}",
    "pointers.checked": lambda: _checked("pointers_correctness"),
    "pointers.specialised": lambda: _specialised("pointers_correctness"),
    "small.2048": lambda: _small(2048),
    "small.4096": lambda: _small(4096),
    "backward.cudnn": lambda: span(ratios(_gradients(), "cuDNN")),
    "flex.full": lambda: span(_flex("full")),
    "flex.causal": lambda: span(_flex("causal")),
    "flex.backward": lambda: span(_flex(*(f"{form}, backward" for form in FLEX))),
    "flex.others": lambda: span(_flex("window", "documents", "distance")),
    **{f"templates.{form}": functools.partial(_template, form)
       for form in ("mm", "addmm_relu", "bmm", "persistent", "scaled", "grouped", "weights")},
    "products.linear": functools.partial(_products, "linear", "cuBLAS"),
    "products.batched": functools.partial(_products, "batched", "cuBLAS"),
    "products.grouped": functools.partial(_products, "grouped", "PyTorch"),
    "products.scaled.blocks": functools.partial(_products, "scaled", "PyTorch", kind="blocks"),
    "products.moe": functools.partial(_products, "moe", BEST_STOCK),
    "products.convolution": functools.partial(_products, "convolution", "cuDNN, NHWC"),
    **{f"missing.{it}": functools.partial(_missing, it) for it in ("timed", "latency", "as_many", "fewer")},
    "corpus.operation.least": _slowest_operation,
    "corpus.mean": _corpus_mean,
    "corpus.least": lambda: f"{min(_corpus()[0]):.2f}",
    "corpus.most": lambda: f"{max(_corpus()[0]):.2f}",
    "corpus.unusual": lambda: span(_corpus()[1], 0),
    "corpus.unusual.count": lambda: str(len(_corpus()[1])),
    "corpus.int4.512": lambda: _int4(512),
    "corpus.int4.4096": lambda: _int4(4096),
    "gemm.short": _short_tiles,
    "gemm.matrix": lambda: str(sum(map(len, _matrix().values()))),
    "gemm.matrix.specialised": lambda: str(len(_matrix()[True])),
    "gemm.matrix.slowest": lambda: f"{min(_matrix()[True]):.2f}",
    "gemm.matrix.shared": _shared_sm,
    "gemm.checked": lambda: _checked("gemm_correctness"),
    "compile.tawa": lambda: _median("compile_time", "all", "total"),
    "compile.specialised": lambda: _median("compile_time", "all", "specialised compile"),
    "compile.stock": lambda: _median("compile_time", "all", "stock compile"),
    "verify.compile": lambda: _median("verify", "all", "compile"),
    "verify.compile.worst": lambda: _median("verify", "worst", "compile"),
    **{f"verify.full.{it}": functools.partial(_median, "verify", "worst", f"{it} full")
       for it in ("credits", "barriers", "refinement")},
    "verify.lines": lambda: verdict_table.source_lines(rows("verify")),
    **{f"rings.{name}": functools.partial(_ring, name) for name in RINGS},
    **{f"emitted.{kind}": functools.partial(_emitted, kind) for kind in EMITTED},
    **{f"foreign.{it}": functools.partial(_foreign, it) for it in FOREIGN},
    **{f"foreign.others.{it}": functools.partial(_foreign, it, False) for it in FOREIGN},
    **{f"foreign.faults.{it}": functools.partial(_foreign_faults, it) for it in FOREIGN_FAULTS},
    **{
        f"blackwell.{kernel}.{candidate}": functools.partial(_blackwell_cycles, kernel, candidate)
        for kernel in BLACKWELL_KERNELS
        for candidate in BLACKWELL
    },
    **{f"blackwell.{it}": functools.partial(_blackwell, it) for it in FOREIGN},
    **{f"blackwell.faults.{it}": functools.partial(_blackwell_faults, it) for it in FOREIGN_FAULTS},
    **{f"blackwell.mutants.{it}": functools.partial(_mutants, it, "mutations_blackwell")
       for it in ("made", "refuted", "equivalent")},
    "blackwell.mutants.random": lambda: _mutants_by_reason(MUTANTS["random runs"], "mutations_blackwell"),
    **{f"blackwell.matrix.{it}": functools.partial(_blackwell_matrix, it) for it in ("3.6.0", "3.9.0", "runs")},
    "mutants": lambda: _mutants("made"),
    "mutants.refuted": lambda: _mutants("refuted"),
    "mutants.equivalent": lambda: _mutants("equivalent"),
    **{f"mutants.{name}": functools.partial(_mutants_by_reason, group) for name, group in MUTANTS.items()},
}  # fmt: skip
"""By the name in the marks on the pages."""

TABLES: dict[str, Callable[[], list[str]]] = {
    "gemm": gemm_table,
    "attention": attention_tables,
    "attention-libraries": lambda: attention_pages.libraries(read(RESULTS / "attention.json")[1]),
    "attention-decode": lambda: attention_pages.decoding(read(RESULTS / "attention_decode.json")[1]),
    "attention-varlen": lambda: attention_pages.packed(read(RESULTS / "attention_varlen.json")[1]),
    "attention-masks": lambda: attention_pages.by_mask(read(RESULTS / "attention_masks.json")[1]),
    "attention-backward": lambda: attention_pages.gradients(read(RESULTS / "attention_backward.json")[1]),
    "attention-backward-ablation": lambda: attention_pages.mechanisms(
        read(RESULTS / "attention_backward_ablation.json")[1]
    ),
    "attention-backward-others": lambda: attention_pages.others(read(RESULTS / "mechanisms.json")[1]),
    "missing": missing_table,
    "gains-packages": gains.packages,
    "gains-learned": gains.learned,
    "gains-kernels": gains.kernels,
    "gains-operators": gains.operators,
    "gains-models": gains.models,
    "pointers": pointers_table,
    "instructions": instructions_table,
    "grouped": products.grouped,
    "moe": products.moe,
    "scaled": products.scaled,
    "batched": products.batched,
    "foreign": lambda: foreign.table(rows("foreign")),
    "verdicts": lambda: verdict_table.table(rows),
}
"""The lines of each table, by the name in the comment above it."""
