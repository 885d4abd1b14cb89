"""What `tawa tune` shows: a progress bar while jobs run, and a table of results at the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from tawa.runtime.tuning.jobs import Job
    from tawa.runtime.tuning.session import Run, Session
    from tawa.runtime.tuning.table import Entry
    from tawa.runtime.tuning.workers import Event


def tune(session: Session, run: Run, budget_s: float, simulated: bool) -> None:
    """Tunes what is left of a session, with a progress bar."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    tasks, jobs = session.tasks(budget_s, simulated), dict(session.jobs())
    if not tasks:
        return
    columns = (
        SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
        TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True, highlight=False, markup=False), transient=True) as progress:
        whole = progress.add_task("tuning", total=len(jobs), completed=len(jobs) - len(tasks))
        rows: dict[str, Any] = {}

        def on_event(event: Event) -> None:
            session.keep(event)
            job = str(event["job"])
            name = _title(jobs[Path(job)])
            if "trying" in event:
                if job not in rows:
                    rows[job] = progress.add_task(name, total=None)
                progress.update(rows[job], description=f"{name}: {event['trying']}")
            elif "lost" in event:
                progress.console.print(f"{name}: left out: {event['lost']}: {event['why']}")
            else:
                if job in rows:
                    progress.remove_task(rows.pop(job))
                progress.advance(whole)

        run(tasks, on_event=on_event)


def _title(job: Job) -> str:
    return f"{job.name} ({job.shape_class})"


def print_results(session: Session, simulated: bool, as_json: bool) -> None:
    """Prints the results of a session: a table, or JSON."""
    from tawa.runtime.tuning.collect import left_out

    entries, jobs = session.entries(), dict(session.jobs())
    ended = [(jobs[Path(job)], it) for job, it in session.done().items()]
    reasons = {name: [_reason(job, it[name]) for job, it in ended if name in it] for name in ("failed", "only_stock")}
    reasons["left_out"] = left_out(session.jobs_folder)
    if as_json:
        facts = {"entries": [{**it.to_dict(), "gain": it.gain} for it in entries], **reasons}
        typer.echo(json.dumps(facts, indent=2))
        return
    from rich.console import Console

    console = Console(highlight=False, markup=False)  # names in tables may have brackets
    if entries:
        console.print(_table(entries, simulated))
    titles = {"only_stock": "stock Triton's kernel is the only one", "left_out": "left out", "failed": "not tuned"}
    for name, title in titles.items():
        for it in reasons[name]:
            text = f"{title}: {it['kernel']} ({it['shape_class']}): {it['reason']}"
            console.print(text, soft_wrap=True)


def _reason(job: Job, reason: str) -> dict[str, str]:
    return {"kernel": job.name, "shape_class": job.shape_class, "reason": reason}


def _table(entries: list[Entry], simulated: bool) -> Any:
    from rich.table import Table

    clock = "simulated, no launch uses these" if simulated else ", ".join(sorted({it.gpu for it in entries}))
    table = Table(title=f"the fastest Plans ({clock})", title_justify="left")
    for name in ("kernel", "shape class", "fastest Plan"):
        table.add_column(name)
    for name in ("µs", "± µs", "over stock", "Plans timed"):
        table.add_column(name, justify="right")
    for it in sorted(entries, key=lambda it: (it.kernel, it.shape_class)):
        timed = sum(time.median_us is not None for time in it.times)
        gain = f"{it.gain:.2f}" if it.gain is not None else "-"
        us = (_us(it.best.median_us), _us(it.best.spread_us)) if it.best is not None else ("-", "-")
        # One function compiled for other constants, types or alignment is another kernel.
        alone = sum((it.kernel, it.shape_class) == (other.kernel, other.shape_class) for other in entries) == 1
        kernel = it.kernel if alone else f"{it.kernel} #{it.key[:6]}"
        words = f"{it.words} (learned)" if it.learned else it.words
        table.add_row(kernel, it.shape_class, words, *us, gain, f"{timed} of {len(it.times)}")
    return table


def _us(value: float | None) -> str:
    return f"{value:.1f}" if value is not None else "-"
