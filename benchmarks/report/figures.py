"""matplotlib, set up once: SVG files whose text is text, the same bytes for the same numbers."""

from pathlib import Path
from typing import Any

import matplotlib as mpl

from benchmarks.peers import EXCHANGE, FLOOR, OURS, OURS_IN_C

mpl.use("svg")
mpl.rcParams |= {
    "svg.hashsalt": "benchmarks",
    "svg.fonttype": "none",
    "font.size": 8,
    "axes.grid": True,
    "grid.alpha": 0.3,
}

from matplotlib import pyplot as plt  # noqa: E402

__all__ = ["colour", "mpl", "plt", "save"]

_COLOURED = (OURS, "gloo", FLOOR, "deepspeed", "Intel MPI", "Open MPI", "MPICH", EXCHANGE, OURS_IN_C)


def colour(peer: str) -> str:
    """One per peer in all figures."""
    return f"C{_COLOURED.index(peer) if peer in _COLOURED else 9}"


def save(figure: Any, path: Path, title: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.suptitle(title, parse_math=False)  # a processor may be called anything
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
