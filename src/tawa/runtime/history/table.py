"""The table of `tawa report`: a row for each verdict, the kernels with most GPU time first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from tawa.runtime.explain.table import plural

if TYPE_CHECKING:
    from tawa.runtime.history.process_report import KernelHistory, ProcessReport, Verdict


def report_table(report: ProcessReport) -> Group:
    """A headline, the table, and notes on missing numbers."""
    if not report.kernels:
        return Group(Text("no kernel was compiled under tawa.install()"), *(Text(line) for line in notes_of(report)))
    table = Table(title_justify="left")
    table.add_column("kernel", overflow="fold", min_width=16)
    if report.gpu_ms is not None:
        table.add_column("GPU time", justify="right", no_wrap=True)
    table.add_column("launches", justify="right", no_wrap=True)
    table.add_column("versions", justify="right", no_wrap=True)
    table.add_column("outcome", overflow="fold", ratio=1)
    for kernel in report.kernels:
        for number, verdict in enumerate(kernel.verdicts):
            name = kernel.name if number == 0 else ""
            time = [_time(report, kernel) if number == 0 else ""] if report.gpu_ms is not None else []
            launches = "?" if verdict.launches is None else str(verdict.launches)
            table.add_row(Text(name), *time, launches, str(verdict.versions), verdict_text(verdict))
        for text in kernel.learning:
            table.add_row("", *([""] if report.gpu_ms is not None else []), "", "", Text(text, style="dim"))
        table.add_section()
    return Group(Text(headline(report), style="bold"), table, *(Text(line, style="dim") for line in notes_of(report)))


def headline(report: ProcessReport) -> str:
    """One line: how many kernels, and how many of them are specialised."""
    applied = [kernel for kernel in report.kernels if any(verdict.applied for verdict in kernel.verdicts)]
    processes = f" in {report.processes} processes" if report.processes > 1 else ""
    text = f"{plural(len(report.kernels), 'kernel')}{processes}, {len(applied)} specialised"
    if report.gpu_ms:
        part = sum(kernel.gpu_ms or 0.0 for kernel in applied) / report.gpu_ms
        text += f": {part:.0%} of {report.gpu_ms:.1f} ms of GPU time"
    return text


def verdict_text(verdict: Verdict) -> Text:
    """Verdict, reason, location and cure, a line each."""
    word, style = ("specialised", "green") if verdict.applied else ("not specialised", "yellow")
    text = Text.assemble((word, style), f": {verdict.reason}" if verdict.reason else "")
    if verdict.location:
        text.append(f"\nat {verdict.location}", style="dim")
    if verdict.cure and not verdict.applied:
        text.append(f"\ncure: {verdict.cure}")
    return text


def _time(report: ProcessReport, kernel: KernelHistory) -> str:
    share = report.share(kernel)
    return "" if share is None else f"{share:.1%}"


def notes_of(report: ProcessReport) -> list[str]:
    """What is missing in a report, and why."""
    notes = [f"nothing recorded: {report.reason}"] if report.reason else []
    if report.gpu_ms is None and report.kernels:
        why = report.note or "not profiled; `tawa run --profile` does"
        notes.append(f"share of GPU time: not known ({why})")
    if any(verdict.launches is None for kernel in report.kernels for verdict in kernel.verdicts):
        notes.append("launches ?: torch.compile has a launcher of its own, whose launches only a profile counts")
    return notes
