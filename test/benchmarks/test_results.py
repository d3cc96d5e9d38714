"""Results files: kept, read again, compared."""

import gzip
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


def test_what_is_cut_off_or_something_else_is_refused_by_its_name(tmp_path: Path) -> None:
    text = made_up(usual()).save(tmp_path).read_bytes()
    packed = gzip.compress(text, mtime=0)
    spoilt = bytes([*packed[:99], *(255 - byte for byte in packed[99:120]), *packed[120:]])
    for name, content in {
        "cut.json": text[: len(text) // 2],
        "empty.json": b"",
        "list.json": b"[1]",
        "cut.json.gz": packed[: len(packed) // 2],
        "spoilt.json.gz": spoilt,
        "not packed.json.gz": text,
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=f"{name} is "):
            results.load(tmp_path / name)


def test_a_file_that_cannot_be_written_whole_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_text

    def half(path: Path, text: str) -> int:
        write(path, text[: len(text) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(OSError, match="No space"):
        made_up(usual()).save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_files_with_nothing_to_compare_or_of_two_machines_say_so(tmp_path: Path) -> None:
    first, second = made_up(usual()), made_up(usual())
    second.values["machine"]["processor"] = "Another"
    one, other = first.save(tmp_path / "one"), second.save(tmp_path / "other")
    assert compare.unlike(one, one) == ""
    assert "two machines, Some CPU, 2 cores and Another, 2 cores" in compare.unlike(one, other)
    with pytest.raises(ValueError, match="no cell in which both results have customccl and Gloo"):
        list(compare.files(one, other, "Gloo"))
