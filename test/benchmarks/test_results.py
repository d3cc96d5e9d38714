"""Results files: kept, read again, compared."""

from pathlib import Path

import pytest
from made_up import cell, made_up, peer, usual

from benchmarks import compare, results
from benchmarks.peers import FLOOR, OURS
from benchmarks.results import Results


def test_results_survive_their_file(tmp_path: Path) -> None:
    path = made_up(usual()).save(tmp_path)
    assert results.load(path).values == made_up(usual()).values


def test_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text('{"format": 0}')
    with pytest.raises(ValueError, match="no results file"):
        results.load(tmp_path / "old.json")


def test_kept_results_of_a_newer_quick_run_stand_after_the_full_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "KEPT", tmp_path / "kept")
    for preset, date in (("full", "2026-01-02"), ("quick", "2026-01-03"), ("big", "2026-01-01")):
        run = made_up(usual())
        run.values["plan"]["preset"], run.values["machine"]["date"] = preset, date
        results.keep(run.save(tmp_path))
    assert [run.values["plan"]["preset"] for run in results.kept()] == ["full", "quick", "big"]
    older = made_up(usual())
    older.values["machine"]["date"] = "2026-01-01"
    results.keep(older.save(tmp_path))
    assert [run.values["plan"]["preset"] for run in results.kept()] == ["full", "big"]


def test_comparing_two_files_cancels_the_speed_of_the_machine(tmp_path: Path) -> None:
    def run(ours: float, gloo: float, name: str) -> Path:
        made: Results = made_up([cell("all_reduce", 8, {OURS: peer(ours), "gloo": peer(gloo), FLOOR: peer(1.0)})])
        return made.save(tmp_path / name)

    (compared,) = compare.files(run(10.0, 100.0, "old"), run(10.0, 200.0, "new"), "gloo")
    assert compared.quiet and compared.speed_up.median == pytest.approx(2.0)
    assert compared.speed_up.verdict == "faster"
