"""Times convolution: ``python -m bench.convolution [--dtype fp16 tf32] [--only TEXT] [--tiles]``.

The twelve layers of the im2win paper and those of ResNet-50, batch 128, channels last. Candidates: `tawa.ops.conv2d`
with the form that it chooses and with each form by name; cuDNN through PyTorch, channels last and first, with
``benchmark=True``; im2col and cuBLAS. Every candidate is checked on its first launch: the first and the last image
against float64 as the tests do, then all run round-robin. Memory that a call needs beside its output is measured, too.

Results: ``bench/results/convolution.json``, written after each layer; rows of other element types stay. ``--tiles``
times the tiles of the chosen form in place of that, into ``bench/results/convolution_tiles.json``. ``--report`` prints
the ratios of the result file.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from bench.convolution.candidates import CHOSEN, IM2COL, LIBRARY, all_calls, geometry_of, tile_calls
from bench.convolution.layers import BATCH, LAYERS, PAPER, Layer
from bench.harness import RESULTS, Report, Row, describe, finite, judge, read, time_round_robin, watchdog

STALL_S = 120.0
DTYPES = {"fp16": "float16", "bf16": "bfloat16", "tf32": "float32"}
CHECKED = (0, BATCH - 1)
"""Images whose outputs are checked."""


def excess(layer: Layer, x: Any, weight: Any, o: Any) -> float:
    """The largest error of the checked images, divided by the allowed one; infinite if an output is not finite."""
    import torch

    from tests.ops.expected_convolution import allowed_error

    if tuple(o.shape) != (BATCH, layer.CO, layer.OH, layer.OH) or not bool(o.isfinite().all()):
        return math.inf
    images = torch.tensor(CHECKED, device=x.device)
    some, found = x[images], o[images].double()

    def convolved(x: Any, weight: Any) -> Any:
        return torch.nn.functional.conv2d(x, weight, stride=layer.stride, padding=layer.padding)

    exact = convolved(some.double(), weight.double())
    allowed = allowed_error(some, weight, exact, convolved)
    return (found - exact).abs().max().item() / allowed


def extra_bytes(call: Callable[[], Any]) -> int:
    """Memory that a call needs beside its output."""
    import torch

    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    o = call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before - o.numel() * o.element_size()


def bench_layer(layer: Layer, dtype: str, tiles: bool) -> tuple[list[Row], dict[str, Any]]:
    """The rows of one layer, and what is known of it: Tawa's choice, and the extra memory of the candidates."""
    import torch

    from tawa.ops.convolution.choice import choose

    x, weight = layer.tensors(getattr(torch, DTYPES[dtype]))
    about = {**asdict(layer), "N": BATCH, "dtype": dtype}
    chosen = choose(x, geometry_of(layer, x.element_size()), None)
    known: dict[str, Any] = {
        "chosen": chosen.form.name if chosen.form else "library",
        "tile": asdict(chosen.tile) if chosen.tile else None,
        "predicted_us": round(chosen.us, 1),
        "im2col_bytes": layer.im2col_bytes(x.element_size()),
        "extra_bytes": {},
    }
    calls = (tile_calls if tiles else all_calls)(layer, x, weight)

    def judged(name: str, o: Any) -> float:
        error = excess(layer, x, weight, o)
        known["extra_bytes"][name] = extra_bytes(calls[name])
        return error

    fit, errors, rows = judge(calls, judged, about)
    timings, failures = time_round_robin(fit, rounds=9 if tiles else 15, rest_s=0.01)
    rows += [Row.timed(about, name, it, layer.flop, finite(errors[name])) for name, it in timings.items()]
    return rows + [Row(about, name, error=text) for name, text in failures.items()], known


def line_of(label: str, rows: Iterable[Row], known: Mapping[str, Any]) -> str:
    """One line about a layer: microseconds, the fastest first, or why there are none."""
    timed = sorted((row for row in rows if row.median_ms is not None), key=lambda row: row.median_ms or 0.0)
    told = [f"{row.candidate} {(row.median_ms or 0) * 1e3:.0f}" for row in timed]
    told += [f"{row.candidate}: {row.error}" for row in rows if row.median_ms is None]
    return f"{label:24} [{known['chosen']}, predicted {known['predicted_us']:.0f}]  " + "; ".join(told)


def report(rows: Iterable[Row]) -> str:
    """The ratios of the result file, by element type."""
    times: dict[str, dict[str, dict[str, float]]] = {}
    for row in rows:
        if row.median_ms:
            times.setdefault(row.case["dtype"], {}).setdefault(row.case["name"], {})[row.candidate] = row.median_ms
    lines: list[str] = []
    for dtype, layers in times.items():
        for what, names in (("paper", {it.name for it in PAPER}), ("ResNet-50", {it.name for it in LAYERS[12:]})):
            of_set = {name: it for name, it in layers.items() if name in names and CHOSEN in it}
            for peers in (*((it,) for it in LIBRARY), LIBRARY, (IM2COL,)):
                ratios = {
                    name: min(it[peer] for peer in peers if peer in it) / it[CHOSEN]
                    for name, it in of_set.items()
                    if any(peer in it for peer in peers)
                }
                if ratios:
                    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
                    least = min(ratios, key=lambda name: ratios[name])
                    lines.append(
                        f"{dtype} {what:10} {len(ratios):2} layers: {mean:.3f} x {' or '.join(peers)} (least "
                        f"{ratios[least]:.2f}: {least})"
                    )
    return "\n".join(lines)


def main() -> int:
    """Times the layers asked for; returns 1 if a candidate of this project was wrong or failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", nargs="+", choices=DTYPES, default=["fp16", "tf32"])
    parser.add_argument("--only", default="", metavar="TEXT", help=f"layers with this in their names: {LAYERS[0].name}")
    parser.add_argument("--tiles", action="store_true", help="time the tiles of the chosen form")
    parser.add_argument("--report", action="store_true", help="print the ratios of the result file, time nothing")
    arguments = parser.parse_args()
    name = "convolution_tiles" if arguments.tiles else "convolution"
    path = RESULTS / f"{name}.json"
    if arguments.report:
        print(report(read(path)[1]))
        return 0
    import torch

    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
    made, sound = Report(name), True
    layers = [it for it in LAYERS if arguments.only in it.name]
    known: dict[str, Any] = {}
    if path.exists():
        asked = {(it.name, dtype) for it in layers for dtype in arguments.dtype}
        about, rows = read(path)
        made.rows = [row for row in rows if (row.case["name"], row.case["dtype"]) not in asked]
        known = about.get("layers", {})
    made.about["layers"] = known
    for dtype in arguments.dtype:
        for layer in layers:
            label = f"{dtype} {layer.name}"
            try:
                with watchdog(STALL_S, label):
                    rows, known[label] = bench_layer(layer, dtype, arguments.tiles)
            except Exception as error:  # one layer must not lose the others
                print(f"{label}: {describe(error)}", flush=True)
                sound = False
                continue
            made.add(*rows)
            sound = sound and all(row.median_ms is not None for row in rows if "Tawa" in row.candidate)
            print(line_of(label, rows, known[label]), flush=True)
            torch.cuda.empty_cache()
    made.note_clocks()
    made.save()
    if not arguments.tiles:
        print(report(made.rows))
    return 0 if sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
