"""Results files: machine facts and raw samples as JSON, and questions to ask them."""

import gzip
import json
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import intervals
from benchmarks.intervals import Interval, Summary
from benchmarks.native import ROOT
from benchmarks.peers import BARE, OUR_WAYS, OURS

FORMAT = 2
BUSY = 0.1  # cores
KEPT = ROOT / "docs" / "results"


@dataclass
class Line:
    """One measured cell: an operation at one size, with all peers."""

    values: dict[str, Any]
    cores: int

    level = property(lambda self: str(self.values["level"]))
    operation = property(lambda self: str(self.values["operation"]))
    style = property(lambda self: str(self.values["style"]))
    dtype = property(lambda self: str(self.values["dtype"]))
    ranks = property(lambda self: int(self.values["ranks"]))
    size = property(lambda self: int(self.values["size"]))

    @property
    def oversubscribed(self) -> bool:
        return bool(self.ranks > self.cores)

    @property
    def peers(self) -> list[str]:
        """Those with correct numbers."""
        return [name for name, peer in self.values["peers"].items() if "samples" in peer and not peer["wrong"]]

    def problem(self, peer: str) -> str:
        """Why a peer has no numbers here; empty if it has."""
        found = self.values["peers"].get(peer)
        if found is None:
            return "failed" if self.failed(peer) else "not in this run"
        if "samples" not in found:
            return str(found["missing"])
        return f"{found['wrong']} wrong elements" if found["wrong"] else ""

    def failed(self, peer: str) -> bool:
        """Whether it was tried here and gave no right results, which is another thing than not to have the operation.
        (At the C level a library that fails is left out; ours is always tried there.)"""
        found = self.values["peers"].get(peer)
        if found is None:
            return self.level == "c" and peer == OURS
        return peer not in self.peers and not str(found.get("missing", "")).startswith("UnsupportedError")

    def samples(self, peer: str) -> Any:
        return self.values["peers"][peer]["samples"]

    def summary(self, peer: str) -> Summary | None:
        return intervals.summary(self.samples(peer)) if peer in self.peers else None

    def quiet(self, peer: str) -> bool:
        return intervals.quiet(self.samples(peer), self.oversubscribed, jitters=peer not in (*OUR_WAYS, *BARE))

    def slack(self, *peers: str) -> float:
        """The factor by which a ratio or time of these may be wrong: 1 if all pass the A/A gate."""
        return math.prod(1.0 if self.quiet(peer) else intervals.noise(self.samples(peer)) for peer in peers)

    def quiet_ratio(self, theirs: str, ours: str) -> Interval | None:
        """The ratio if both pass the A/A gate."""
        return self.ratio(theirs, ours) if self.ratio_is_quiet(theirs, ours) else None

    def ratio_is_quiet(self, theirs: str, ours: str) -> bool:
        return theirs in self.peers and ours in self.peers and self.quiet(theirs) and self.quiet(ours)

    def ratio(self, theirs: str, ours: str) -> Interval | None:
        """Time of theirs / time of ours; None where one has no numbers."""
        if theirs not in self.peers or ours not in self.peers:
            return None
        return intervals.paired_ratio(self.samples(theirs), self.samples(ours))


@dataclass
class Results:
    """One results file."""

    values: dict[str, Any]

    @property
    def machine(self) -> str:
        """For titles: what, when, and how busy with other things."""
        facts, taken = self.values["machine"], sum(self.values["cores_taken"].values())
        text = f"{facts['processor']}, {self.cores} cores, {facts['date'][:10]}"
        return text + (f", {taken:.1f} of them busy with other programs" if self.busy else "")

    @property
    def preset(self) -> str:
        return str(self.values["plan"]["preset"])

    @property
    def name(self) -> str:
        """For files: "full-intel-xeon-processor"."""
        processor = re.sub(r"\([^)]*\)", "", self.values["machine"]["processor"]).lower()
        return "-".join([self.preset, *re.findall("[a-z0-9]+", processor)])

    @property
    def date(self) -> str:
        return str(self.values["machine"]["date"])

    @property
    def busy(self) -> bool:
        """Whether other programs took so much that times mean little."""
        return bool(sum(self.values["cores_taken"].values()) > BUSY)

    @property
    def cores(self) -> int:
        return int(self.values["machine"]["cores_usable"])

    def lines(self, **wanted: Any) -> Iterator[Line]:
        """Lines whose fields are these, in the order measured."""
        for cell in self.values["cells"]:
            if all(cell[name] == value for name, value in wanted.items()):
                yield Line(cell, self.cores)

    def line(self, **wanted: Any) -> Line | None:
        """The line of that size, or of the smallest one not below it (an operation may round up)."""
        size = wanted.pop("size", None)
        found = sorted(self.lines(**wanted), key=lambda line: line.size)
        if size is None:
            return found[0] if found else None
        return next((line for line in found if size * 0.9 <= line.size <= max(size * 1.1, size + 24)), None)

    def save(self, folder: Path) -> Path:
        """A file is whole or not there."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.date.replace(':', '').replace('-', '')[:15]}-{self.preset}.json"
        half = path.with_suffix(".half")
        try:
            half.write_text(json.dumps(self.values, separators=(",", ":")) + "\n")
            half.rename(path)
        finally:
            half.unlink(missing_ok=True)
        return path


def keep(path: Path) -> None:
    """Copies a results file to where the report looks for it; one per preset and processor."""
    KEPT.mkdir(parents=True, exist_ok=True)
    target = KEPT / f"benchmark-{load(path).name}.json.gz"
    target.write_bytes(gzip.compress(path.read_bytes(), mtime=0))


def kept() -> list[Results]:
    """Full ones, quick ones that are newer than the full one of their processor, big ones; each kind newest first."""
    found = sorted(map(load, KEPT.glob("benchmark-*.json.gz")), key=lambda run: run.date, reverse=True)
    full, quick, big = ([run for run in found if run.preset == preset] for preset in ("full", "quick", "big"))
    dates = {run.values["machine"]["processor"]: run.date for run in full}
    quick = [run for run in quick if run.date > dates.get(run.values["machine"]["processor"], "")]
    if not found:
        raise FileNotFoundError(f"no results in {KEPT.relative_to(ROOT)}: python -m benchmarks run --report")
    return full + quick + big


def load(path: Path) -> Results:
    """ValueError for what is no results file of this version, or is not whole."""
    found = path.read_bytes()
    try:
        values = json.loads(gzip.decompress(found) if path.suffix == ".gz" else found)
    except (ValueError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is not whole, or no results file: {error}") from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise ValueError(f"{path} is no results file of this version of the benchmark")
    return Results(values)


def unique(values: Sequence[Any] | Iterator[Any]) -> list[Any]:
    """In the order of their first appearance."""
    return list(dict.fromkeys(values))
