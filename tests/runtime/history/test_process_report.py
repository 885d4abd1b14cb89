from __future__ import annotations

import json

from tawa.outside import read
from tawa.runtime.history.process_report import KernelHistory, ProcessReport, Verdict, merge_reports
from tests.runtime.history.reports import FILL, GEMM, verdict


def test_reports_of_processes_add_up() -> None:
    merged = merge_reports([ProcessReport((GEMM, FILL), 50.0), ProcessReport((GEMM,), 30.0, processes=2)])
    gemm, fill = merged.kernels
    assert (gemm.name, gemm.gpu_ms, gemm.launches) == ("gemm", 60.0, 18)
    assert [(it.launches, it.versions, it.compile_ms) for it in gemm.verdicts] == [(16, 2, 20.0), (2, 2, 20.0)]
    assert fill == FILL
    assert (merged.gpu_ms, merged.processes) == (80.0, 3)
    assert merge_reports([ProcessReport((KernelHistory("k", (verdict(True, None),)),))] * 2).kernels[0].launches is None


def test_json_is_read_back() -> None:
    report = ProcessReport((GEMM, FILL), 50.0, "note", 2)
    assert read(ProcessReport, json.loads(report.to_json())) == report


def test_a_verdict_without_a_cure_comes_back() -> None:
    verdict = Verdict(True, "specialised", None, None, 1, 1, 2.0, 1.0)
    report = ProcessReport((KernelHistory("gemm", (verdict,)),))
    assert read(ProcessReport, json.loads(report.to_json())) == report
