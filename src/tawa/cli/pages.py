"""``--html FILE``: writes a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from tawa.cli.failures import UsageError


def html_option(what: str) -> Any:
    """The option; what: is on the page."""
    return typer.Option("--html", metavar="FILE", help=f"Also save a page with {what}: one file that needs no network.")


def save_page(path: Path, text: str, what: str) -> None:
    """Writes a page, and says so. what: is on it. Raises UsageError if the file cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--html {path}: {error.strerror}", "name a file that can be written") from error
    tell_saved(path, f"{what}, a page that needs no network: open it in a browser")


def tell_saved(path: Path, what: str) -> None:
    """Says on stderr that a file was written, what it is, and how large."""
    size = path.stat().st_size
    typer.echo(f"saved {path} ({f'{size / 1e6:.1f} MB' if size >= 1e6 else f'{size / 1e3:.1f} kB'}): {what}", err=True)
