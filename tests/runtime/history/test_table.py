from __future__ import annotations

from tawa.runtime.history.process_report import KernelHistory, ProcessReport
from tests.runtime.history.reports import FILL, GEMM, verdict


def test_the_table_says_what_takes_the_time_what_became_of_it_and_the_cure() -> None:
    text = str(ProcessReport((GEMM, FILL), 50.0))
    assert text.splitlines()[0] == "2 kernels, 1 specialised: 60% of 50.0 ms of GPU time"
    assert text.index("60.0%") < text.index("10.0%")
    for wanted in ("specialised: why", "not specialised: too small", "at pack/gemm.py:7", "cure: larger blocks"):
        assert wanted in text


def test_what_is_not_known_is_said() -> None:
    uncounted = KernelHistory("triton_mm", (verdict(True, None),))
    text = str(ProcessReport((uncounted,)))
    assert "tawa run --profile" in text and "torch.compile" in text
    assert "there is no GPU" in str(ProcessReport((uncounted,), note="there is no GPU"))
