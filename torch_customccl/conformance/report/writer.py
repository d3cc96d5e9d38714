"""Writes all reports of a run into a folder."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text

from . import html, junit, markdown, result
from .result import Result

_NAMES = ("result.json", "summary.md", "junit.xml", "report.html", "official.zip")
_PART = ".part"


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
    """result.json, junit.xml, summary.md, report.html; ``packed``: also all of them as one zip. OSError: not all."""
    folder.mkdir(parents=True, exist_ok=True)
    with _whole(folder / "result.json") as path:
        result.save(made, path)
    with _whole(folder / "summary.md") as path:
        path.write_text(markdown.as_markdown(made), encoding="utf-8")
    with _whole(folder / "junit.xml") as path:
        junit.save(made, path)
    if html.available():
        with _whole(folder / "report.html") as path:
            write_html([made], path)
    if packed:
        with _whole(folder / "official.zip") as target, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(folder.iterdir()):
                if path.suffix not in (".zip", _PART):
                    archive.write(path, path.name)


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Where to write what becomes the file `path` when all of it is there; half of it, on a full disk, is not kept."""
    part = path.with_name(path.name + _PART)
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_html(results: list[Result], path: Path) -> None:
    """One self-contained page; without jinja2 there is none."""
    if html.available():
        path.write_text(html.render(results), encoding="utf-8")


def print_summary(made: Result, folder: Path | None, console: Console) -> None:
    """The Markdown summary on the terminal, and where the rest lies, if anywhere."""
    text = markdown.as_markdown(made)
    console.print(Markdown(text) if console.is_terminal else Text(text), soft_wrap=True)
    if folder is None:
        return
    page = ", report.html" if html.available() else ""
    console.print(f"Reports: {folder}/result.json, summary.md, junit.xml{page}", markup=False, soft_wrap=True)
