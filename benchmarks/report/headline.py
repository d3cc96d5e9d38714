"""The few plots that sum a run up: all_reduce over sizes (README shows these), and over numbers of ranks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import operations
from benchmarks.peers import BARE, OURS
from benchmarks.plan import C_STYLE
from benchmarks.report import words
from benchmarks.report.figures import colour, plt, save
from benchmarks.results import Line, Results, unique

Series = dict[str, list[tuple[Line, str]]]  # label -> (line, peer) by size
SIZES_OVER_RANKS = (8, 64 << 10, 1 << 20, 16 << 20)


def draw(results: Results, folder: Path) -> Iterator[tuple[str, Path]]:
    """latency.svg, bandwidth.svg and, if there are several numbers of ranks, ranks.svg: what each shows, and where."""
    ranks = results.values["plan"]["ranks"]
    where = f"{ranks[0]} ranks, {results.machine}"
    for name, title, panel in (
        ("latency", "Time of one all_reduce", _latency),
        ("bandwidth", "Speed of all_reduce: algbw", _bandwidth),
    ):
        figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharex=True, sharey=True)
        panel(axes[0], results, _python(results, ranks[0]))
        panel(axes[1], results, _c(results, ranks[0]))
        axes[0].set_title("torch.distributed (Python)")
        axes[1].set_title("C")
        save(figure, folder / f"{name}.svg", f"{title}, {where}")
        yield f"{title}, {ranks[0]} ranks", folder / f"{name}.svg"
    if len(ranks) > 1:
        yield _over_ranks(results, folder / "ranks.svg")


def _all_reduce(results: Results, **wanted: Any) -> list[Line]:
    return list(results.lines(operation="all_reduce", dtype="float32", **wanted))


def _python(results: Results, ranks: int) -> Series:
    """`dist` calls of all c10d backends, direct calls of ours and of DeepSpeed, which has no other."""
    series: Series = {}
    for line in _all_reduce(results, style="dist", ranks=ranks):
        for peer in (OURS, "gloo", *BARE):
            if peer in line.peers:
                series.setdefault(peer, []).append((line, peer))
    for line in _all_reduce(results, style="direct", ranks=ranks):
        for peer in (OURS, "deepspeed"):
            if peer in line.peers:
                series.setdefault(f"{peer}, direct call", []).append((line, peer))
    return series


def _c(results: Results, ranks: int) -> Series:
    series: Series = {}
    for line in _all_reduce(results, style=C_STYLE, ranks=ranks):
        for peer in line.peers:
            series.setdefault(peer, []).append((line, peer))
    return dict(sorted(series.items(), key=lambda item: item[0] != OURS))


def _style(label: str) -> dict[str, Any]:
    direct = label.endswith("direct call")
    return {
        "color": colour(label.partition(",")[0]),
        "linestyle": "--" if direct else "-",
        "marker": "o",
        "markersize": 3,
    }


def _sizes(axis: Any, label: str) -> None:
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter(lambda value, _: words.size(int(value)))
    axis.set_ylabel(label)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(fontsize=7)
    else:
        axis.text(0.5, 0.5, "not in this run", ha="center", transform=axis.transAxes)


def _latency(axis: Any, results: Results, series: Series) -> None:
    for label, points in series.items():
        found = [(line.size, line.summary(peer)) for line, peer in points]
        axis.plot([size for size, _ in found], [s.median * 1e6 for _, s in found if s], label=label, **_style(label))
        band = [s.p5 * 1e6 for _, s in found if s], [s.p95 * 1e6 for _, s in found if s]
        axis.fill_between([size for size, _ in found], *band, color=_style(label)["color"], alpha=0.12)
    axis.set_yscale("log")
    _sizes(axis, "us, median; band p5 to p95")


def _bandwidth(axis: Any, results: Results, series: Series) -> None:
    for label, points in series.items():
        found = [(line.size, line.summary(peer)) for line, peer in points if peer not in BARE]
        rates = [operations.algbw(size, s.median) for size, s in found if s]
        if rates:
            axis.plot([size for size, _ in found], rates, label=label, **_style(label))
    for kind, dots, label in (("plain", "--", "concurrent memcpy"), ("streaming", ":", "concurrent non-temporal copy")):
        copies = [copy for copy in results.values["ceiling"][0]["copies"] if copy[kind] and copy["bytes"] >= 1 << 20]
        axis.plot(
            [copy["bytes"] for copy in copies], [copy[kind] for copy in copies], "k" + dots, linewidth=0.8, label=label
        )
    _sizes(axis, "GB/s")


def _over_ranks(results: Results, path: Path) -> tuple[str, Path]:
    """One column per size; Python above, C below."""
    figure, axes = plt.subplots(2, len(SIZES_OVER_RANKS), figsize=(11, 5.2), sharex=True, sharey="col", squeeze=False)
    for row, (style, level) in zip(axes, (("dist", "Python"), (C_STYLE, "C")), strict=True):
        for axis, size in zip(row, SIZES_OVER_RANKS, strict=True):
            lines = [line for line in _all_reduce(results, style=style) if line.values["size_wanted"] == size]
            for peer in unique(name for line in lines for name in line.peers):
                has = [line for line in lines if peer in line.peers]
                times = [s.median * 1e6 for line in has if (s := line.summary(peer))]
                axis.plot([line.ranks for line in has], times, label=peer, **_style(peer))
            axis.set_title(f"{level}, {words.size(size)}")
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            axis.xaxis.set_major_formatter(lambda value, _: f"{value:.0f}")
        row[0].set_ylabel("us, median")
        row[0].legend(fontsize=6)
    for axis in axes[-1]:
        axis.set_xlabel("ranks")
    title = f"all_reduce over ranks; {results.cores} cores"
    save(figure, path, f"{title}; {results.machine}")
    return title, path
