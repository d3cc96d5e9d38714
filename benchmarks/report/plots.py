"""Plots as SVG files: latency, bandwidth, ratio, heat map. The same axes for all operations of a figure."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import ceil
from pathlib import Path
from typing import Any

from benchmarks import operations
from benchmarks.operations import OPERATIONS
from benchmarks.peers import BARE, OUR_WAYS, OURS
from benchmarks.plan import C_STYLE
from benchmarks.report import words
from benchmarks.report.figures import colour, mpl, plt, save
from benchmarks.results import Line, Results, unique

COLUMNS = 3
Draw = Callable[[Any, list[Line]], None]


def draw(results: Results, folder: Path) -> Iterator[tuple[str, Path]]:
    """All figures of the detailed numbers of ranks, heat maps of the others: what each shows, and where it lies."""
    for style, ranks in unique((line.style, line.ranks) for line in results.lines(dtype="float32")):
        lines = [line for line in results.lines(style=style, ranks=ranks, dtype="float32") if line.size and line.peers]
        if style not in ("dist", C_STYLE) or not lines:
            continue
        level = "Python" if style == "dist" else "C"
        detailed = ranks in results.values["plan"]["detailed"]
        for name, title, make in _FIGURES if detailed else _FIGURES[-1:]:
            path = folder / f"{level.lower()}-{ranks}-ranks-{name}.svg"
            make(results, lines, path, f"{title}, {level} level, {ranks} ranks, float32")
            yield f"{title}, {level} level, {ranks} ranks", path


def _grid(lines: list[Line], path: Path, title: str, y_label: str, draw: Draw) -> None:
    """One small plot per operation, with shared axes."""
    names = unique(line.operation for line in lines)
    rows = ceil(len(names) / COLUMNS)
    figure, axes = plt.subplots(rows, COLUMNS, figsize=(10, 2.4 * rows + 0.6), sharex=True, sharey=True, squeeze=False)
    for axis, name in zip(axes.flat, names, strict=False):
        draw(axis, [line for line in lines if line.operation == name])
        axis.set_title(name)
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter(lambda value, _: words.size(int(value)))
    for axis in axes.flat[len(names) :]:
        axis.set_axis_off()
    axes[0][0].set_ylabel(y_label)
    handles = {
        label: handle for axis in axes.flat for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="lower right", ncols=2)
    save(figure, path, title)


def _peers(lines: Sequence[Line]) -> list[str]:
    return sorted(unique(name for line in lines for name in line.peers), key=lambda name: (name != OURS, name))


def _style_of(peer: str, line: Line) -> dict[str, Any]:
    """Hollow marks where ranks outnumber cores."""
    fill = "none" if line.oversubscribed else "full"
    return {"color": colour(peer), "marker": "o", "markersize": 3, "fillstyle": fill}


def latency(results: Results, lines: list[Line], path: Path, title: str) -> None:
    def draw(axis: Any, lines: list[Line]) -> None:
        for peer in _peers(lines):
            has = [line for line in lines if peer in line.peers]
            found = [line.summary(peer) for line in has]
            sizes = [line.size for line in has]
            axis.plot(sizes, [s.median * 1e6 for s in found if s], label=peer, **_style_of(peer, has[0]))
            band = [s.p5 * 1e6 for s in found if s], [s.p95 * 1e6 for s in found if s]
            axis.fill_between(sizes, *band, color=_style_of(peer, has[0])["color"], alpha=0.15)
        axis.set_yscale("log")

    _grid(lines, path, f"{title}: median, band p5 to p95", "us", draw)


def bandwidth(results: Results, lines: list[Line], path: Path, title: str) -> None:
    ceilings = [ceiling for ceiling in results.values["ceiling"] if ceiling["ranks"] == lines[0].ranks]

    def draw(axis: Any, lines: list[Line]) -> None:
        for peer in _peers(lines):
            has = [line for line in lines if peer in line.peers and peer not in BARE]
            rates = [operations.algbw(line.size, line.summary(peer).median) for line in has]  # type: ignore[union-attr]
            if has:
                axis.plot([line.size for line in has], rates, label=peer, **_style_of(peer, has[0]))
        share = OPERATIONS[lines[0].operation].least_copy(lines[0].ranks)
        for ceiling in ceilings:
            for kind, dashes in (("plain", "--"), ("streaming", ":")):
                copies = [copy for copy in ceiling["copies"] if copy[kind] and copy["bytes"] >= 1 << 16]
                label = "memcpy" if kind == "plain" else "non-temporal copy"
                rates = [copy[kind] / share for copy in copies]
                axis.plot([copy["bytes"] / share for copy in copies], rates, "k" + dashes, linewidth=0.8, label=label)

    _grid(lines, path, f"{title}: algbw, and what concurrent copies allow", "GB/s", draw)


def ratio(results: Results, lines: list[Line], path: Path, title: str) -> None:
    def draw(axis: Any, lines: list[Line]) -> None:
        for peer in _peers(lines):
            has = [line for line in lines if peer not in (OURS, *BARE) and line.ratio_is_quiet(peer, OURS)]
            found = [line.ratio(peer, OURS) for line in has]
            if not has:
                continue
            sizes = [line.size for line in has]
            axis.plot(sizes, [r.median for r in found if r], label=peer, **_style_of(peer, has[0]))
            band = [r.low for r in found if r], [r.high for r in found if r]
            axis.fill_between(sizes, *band, color=_style_of(peer, has[0])["color"], alpha=0.2)
        axis.axhline(1.0, color="black", linewidth=0.8)
        axis.set_yscale("log")

    _grid(lines, path, f"{title}: above 1, customccl is faster; band 95 %", "time of peer / time of customccl", draw)


def heat_map(results: Results, lines: list[Line], path: Path, title: str) -> None:
    """The best of all peers in each cell; where one is too noisy to be compared, no number."""
    names, sizes = unique(line.operation for line in lines), sorted({_nominal(line) for line in lines})
    figure, axis = plt.subplots(figsize=(max(4.0, 1.5 + 0.75 * len(sizes)), 1.5 + 0.32 * len(names)))
    grid = [[float("nan")] * len(sizes) for _ in names]
    texts = [[""] * len(sizes) for _ in names]
    for line in lines:
        others = [peer for peer in line.peers if peer not in (*OUR_WAYS, *BARE)]
        found = [ratio.median for peer in others if (ratio := line.quiet_ratio(peer, OURS))]
        row, column = names.index(line.operation), sizes.index(_nominal(line))
        texts[row][column] = "noisy" if others else ""
        if found and len(found) == len(others):
            grid[row][column] = min(found)
            texts[row][column] = words.three(min(found))
    norm = mpl.colors.LogNorm(0.1, 10)
    axis.imshow(grid, cmap="RdYlGn", norm=norm, aspect="auto")
    for row, column in product(range(len(names)), range(len(sizes))):
        axis.text(column, row, texts[row][column], ha="center", va="center")
    axis.set_xticks(range(len(sizes)), [words.size(size) for size in sizes])
    axis.set_yticks(range(len(names)), names)
    axis.grid(False)
    save(figure, path, f"{title}\ntime of the best peer / time of customccl")


def _nominal(line: Line) -> int:
    """The size asked for, under which cells of several operations stand in one column."""
    return int(line.values["size_wanted"])


_FIGURES = (
    ("latency", "Latency", latency),
    ("bandwidth", "Bandwidth", bandwidth),
    ("ratio", "Ratio", ratio),
    ("heat-map", "All operations", heat_map),
)
