"""The pages of the documentation, and the examples in them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

# A fence and what follows its language: words, or key=value.
FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the words behind it ("run", "file=sum.py ranks=2") and its text."""

    page: Path
    line: int
    language: str
    words: dict[str, str]
    text: str


def pages() -> list[Path]:
    """README.md, the pages of docs/ and the other pages of the root."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[Block]:
    text = page.read_text()
    found = []
    for match in FENCE.finditer(text):
        words = dict(word.partition("=")[::2] for word in shlex.split(match[2]))
        found.append(Block(page, text.count("\n", 0, match.start()) + 1, match[1], words, match[3]))
    return [block for block in found if block.language == language]


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return FENCE.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """What a link may name behind #: the headings as GitHub turns them into anchors."""
    headings = re.findall(r"(?m)^#+ +(.+)$", prose(page))
    kept = [re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in kept}
