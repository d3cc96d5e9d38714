"""Numbers as a person reads them."""

from benchmarks.intervals import Interval

NOISY = "machine too noisy"


def time(seconds: float) -> str:
    """Three digits with a unit: 2.9e-06 -> "2.90 us"."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if abs(seconds) >= scale:
            return f"{three(seconds / scale)} {unit}"
    return f"{three(seconds / 1e-9)} ns"


def more(seconds: float) -> str:
    """What is added: -1.5e-07 -> "- 150 ns"."""
    return f"{'-' if seconds < 0 else '+'} {time(abs(seconds))}"


def three(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value == 0:
        return "0"
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:.{digits}f}"


def size(count: int) -> str:
    for unit, scale in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.4g} {unit}"
    return f"{count} B"


def ratio(interval: Interval) -> str:
    """ "52.1x [50.3, 53.0]"."""
    return f"{three(interval.median)}x [{three(interval.low)}, {three(interval.high)}]"


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    """A table of Markdown; all columns but the first are right-aligned."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return ["| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines]
