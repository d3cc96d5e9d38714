"""Writes all reports of a run into a folder."""

from __future__ import annotations

import zipfile
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text

from . import html, junit, markdown, result
from .result import Result

_NAMES = ("result.json", "summary.md", "junit.xml", "report.html", "official.zip")


def check_writable(folder: Path) -> None:
    """Make the folder; raises OSError if a report cannot be written there."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in _NAMES:
        check_file(folder / name)


def check_file(path: Path) -> None:
    """Raises OSError if this file cannot be written; leaves everything as it is."""
    new = not path.exists()
    path.open("ab").close()
    if new:
        path.unlink()


def write_all(made: Result, folder: Path, packed: bool) -> None:
    """result.json, junit.xml, summary.md, report.html; ``packed``: also all of them as one zip."""
    folder.mkdir(parents=True, exist_ok=True)
    result.save(made, folder / "result.json")
    (folder / "summary.md").write_text(markdown.as_markdown(made), encoding="utf-8")
    junit.save(made, folder / "junit.xml")
    write_html([made], folder / "report.html")
    if packed:
        with zipfile.ZipFile(folder / "official.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(folder.iterdir()):
                if path.suffix != ".zip":
                    archive.write(path, path.name)


def write_html(results: list[Result], path: Path) -> None:
    """One self-contained page; without jinja2 there is none."""
    if html.available():
        path.write_text(html.render(results), encoding="utf-8")


def print_summary(made: Result, folder: Path, console: Console) -> None:
    """The Markdown summary on the terminal, and where the rest lies."""
    text = markdown.as_markdown(made)
    console.print(Markdown(text) if console.is_terminal else Text(text), soft_wrap=True)
    page = ", report.html" if html.available() else ""
    console.print(f"Reports: {folder}/result.json, summary.md, junit.xml{page}", markup=False, soft_wrap=True)
