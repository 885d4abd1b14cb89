"""``--html FILE``: writes a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from tawa.cli.failures import UsageError


def html_option(what: str) -> Any:
    """The option; what: is on the page."""
    return typer.Option("--html", metavar="FILE", help=f"Also save a page with {what}: one file that needs no network.")


def save_page(path: Path, text: str) -> None:
    """Writes a page. Raises UsageError if the file cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--html {path}: {error.strerror}", "name a file that can be written") from error


__all__ = ["html_option", "save_page"]
