"""The page: its files, its verdicts, and what it does not claim."""

import re
from pathlib import Path

import pytest
from made_up import cell, made_up, peer, usual

from benchmarks import results
from benchmarks.peers import EXCHANGE, FLOOR, OURS, OURS_IN_C, OURS_SHARED, OURS_WIDE
from benchmarks.report import aims, headline, page
from benchmarks.results import Results


def row(text: str, *starts: str) -> str:
    """The one line of a table with these first cells."""
    found = [line for line in text.splitlines() if line.startswith("| " + " | ".join(starts) + " |")]
    assert len(found) == 1, (starts, found)
    return found[0]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "performance.md"
    page.write([made_up(usual())], path)
    return path


@pytest.fixture
def quick_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty files where the plots would be: drawing takes seconds."""
    for name in ("headline", "details"):

        def draw(_: Results, folder: Path, name: str = name) -> list[tuple[str, Path]]:
            folder.mkdir(parents=True, exist_ok=True)
            plot = folder / f"{name}.svg"
            plot.touch(exist_ok=False)
            return [(name, plot)]

        monkeypatch.setattr(getattr(page, name), "draw", draw)


def python_table(written: Path) -> str:
    return written.read_text().split("### Python, `torch.distributed` calls: 2 ranks")[1].split("###")[0]


def test_every_plot_is_a_file_and_every_file_is_shown(written: Path) -> None:
    shown = re.findall(r"!\[[^]]+\]\(([^)]+)\)", written.read_text())
    files = {str(path.relative_to(written.parent)) for path in (written.parent / "plots").rglob("*.svg")}
    assert set(shown) == files
    assert {"plots/latency.svg", "plots/bandwidth.svg", "plots/ranks.svg"} <= files
    assert all("<svg" in (written.parent / name).read_text() for name in files)


def test_plots_are_the_same_bytes_for_the_same_numbers(written: Path, tmp_path: Path) -> None:
    page.write([made_up(usual())], tmp_path / "performance.md")
    for name in ("latency", "bandwidth"):
        assert (tmp_path / "plots" / f"{name}.svg").read_bytes() == (written.parent / f"plots/{name}.svg").read_bytes()


def test_a_steady_cell_has_its_time_its_bandwidth_and_its_ratio(written: Path) -> None:
    line = row(python_table(written), "all_reduce", "8 B")
    assert "3.10 us" in line and "186 us, 60.0x [60.0, 60.0]" in line and "+ 100 ns" in line


def test_a_wrong_line_has_no_ratio(written: Path) -> None:
    line = row(python_table(written), "all_reduce", "1 MiB")
    assert "7 wrong elements" in line and "500 us" not in line
    assert "| 21.0 | 21.0 |" in line  # ours: 1 MiB in 50 us, algbw and busbw


def test_a_noisy_peer_has_no_number(written: Path) -> None:
    line = row(python_table(written), "all_gather", "8 B")
    assert "machine too noisy" in line and "200 us" not in line


def test_what_a_peer_cannot_do_is_a_gap_with_its_reason(written: Path) -> None:
    assert "no such call" in row(python_table(written), "broadcast", "8 B")
    assert "- Missing: deepspeed: not here" in written.read_text()


@pytest.mark.parametrize(("ours", "verdict"), [(790.0, "reached"), (700.0, "?")])
def test_a_step_much_faster_than_one_that_communicates_nothing_proves_nothing(ours: float, verdict: str) -> None:
    steps = cell("ddp_step", 0, {OURS: peer(ours), "gloo": peer(900.0), FLOOR: peer(800.0)}, style="step")
    rows = {(what, target): seen for what, target, _, seen in aims.rows(made_up([steps]))}
    assert rows["DDP step: communication", "5x below gloo"] == verdict


def test_targets_are_reached_missed_or_unknown() -> None:
    rows = {(what, target): verdict for what, target, _, verdict in aims.rows(made_up(usual()))}
    assert rows["`dist.all_reduce` 8 B", "floor + 0.3 us"] == "reached"
    assert rows["`dist.all_reduce` 8 B", "50x gloo"] == "reached"
    assert rows["`dist.broadcast` 8 B", "floor + 0.6 us"] == "**missed**"
    assert rows["`dist.all_gather_into_tensor` 8 B", "floor + 0.6 us"] == "reached"
    assert rows["`dist.all_reduce` 64 MiB", "9x gloo"] == "?"
    assert rows["an idle process with groups of all peers", "under 1 % of a core"] == "reached"
    assert rows["memory of one more group, Python objects included", "under 64 KiB"] == "**missed**"
    assert rows["a rank that waits two seconds, beyond idling", "under 1 % of a core"] == "?"
    assert rows["DDP step: communication", "5x below gloo"] == "reached"
    assert rows["message of 512 B and 8 tensors of 4 KiB, one way", "40 us"] == "reached"
    assert rows["message of 512 B and 8 tensors of 64 KiB, one way", "80 us"] == "**missed**"
    assert rows["group of 2 ranks, made and ready", "10 ms"] == "reached"
    assert rows["group changes its members: commit", "1 ms"] == "?"
    assert rows["`Communicator.allreduce` 8 B", "C call + 1 us"] == "reached"


def test_calls_of_our_own_have_a_table(written: Path) -> None:
    table = written.read_text().split("### Python, messages, groups and the Communicator: 2 ranks")[1].split("###")[0]
    assert "70.0 us" in row(table, "message", "32 KiB") and "2.10 ms, 30.0x" in row(table, "message", "32 KiB")
    assert "no such call" in row(table, "group_ready", "-")


def test_a_faster_mpi_is_named() -> None:
    measured = {what: text for what, _, text, _ in aims.rows(made_up(usual()))}
    assert measured["C level, every operation and size, 2 ranks"] == "0 of 1 cells: not all_reduce 8 B 0.75x MPICH"


def test_a_target_beyond_memcpy_is_missed_with_the_figures() -> None:
    large = {OURS: peer(8e3), "gloo": peer(45e3), FLOOR: peer(3.0)}
    measured = {
        (what, target): text for what, target, text, _ in aims.rows(made_up([cell("all_reduce", 64 << 20, large)]))
    }
    told = measured["`dist.all_reduce` 64 MiB", "9x gloo"]
    assert told.endswith("; wanted 5.00 ms, the floor and memcpy alone: 6.71 ms"), told
    small = {OURS: peer(200.0), "gloo": peer(2e3), FLOOR: peer(3.0)}
    measured = {
        (what, target): text for what, target, text, _ in aims.rows(made_up([cell("all_reduce", 1 << 20, small)]))
    }
    assert measured["`dist.all_reduce` 1 MiB", "14x gloo"] == "10.0x [10.0, 10.0]"


@pytest.mark.parametrize("exchange, verdict", [(3.2, "**missed**"), (3.4, "out of reach")])
def test_a_target_below_an_exchange_of_flags_is_out_of_reach(exchange: float, verdict: str) -> None:
    peers = {OURS: peer(3.5), FLOOR: peer(3.0), EXCHANGE: peer(exchange)}
    rows = {(what, target): rest for what, target, *rest in aims.rows(made_up([cell("all_reduce", 8, peers)]))}
    told, judged = rows["`dist.all_reduce` 8 B", "floor + 0.3 us"]
    assert judged == verdict
    assert ("wanted 3.30 us, a backend that only exchanges flags alone: 3.40 us" in told) == (judged == "out of reach")


def test_a_target_below_handing_the_data_over_is_out_of_reach() -> None:
    run = made_up([cell("all_reduce", 64 << 10, {OURS: peer(9.0), "gloo": peer(320.0), EXCHANGE: peer(4.5)})])
    run.values["before"] = {**run.values["before"], "handover": [{"bytes": 1 << 15, "in_ns": 900, "out_ns": 850}]}
    rows = {(what, target): rest for what, target, *rest in aims.rows(run)}
    told, judged = rows["`dist.all_reduce` 64 KiB", "45x gloo"]
    assert told.endswith("a backend that only exchanges flags and handing the data over alone: 8.00 us")
    assert judged == "out of reach"


def test_handing_over_is_as_fast_as_the_faster_of_shared_memory_and_the_kernel() -> None:
    peers = {OURS: peer(800.0), "gloo": peer(1000.0), FLOOR: peer(3.0)}
    run = made_up([cell("all_to_all", 2 << 20, peers)])
    target = "`dist` all_to_all, 64 KiB to 64 MiB"
    verdicts = []
    for pulled in (0, 300_000, 100_000):
        tensor = {"bytes": 1 << 20, "in_ns": 200_000, "out_ns": 200_000, "pull_ns": pulled}
        run.values["before"] = {**run.values["before"], "handover": [tensor]}
        verdicts.append(next(rest for what, _, *rest in aims.rows(run) if what == target))
    told = "0 of 1 cells: not all_to_all 2 MiB 1.25x gloo"
    assert verdicts[0] == [f"{told} (wanted 300 us, the floor and handing the data over alone: 403 us)", "out of reach"]
    assert verdicts[1] == [f"{told} (wanted 300 us, the floor and handing the data over alone: 303 us)", "out of reach"]
    assert verdicts[2] == [told, "**missed**"]


@pytest.mark.parametrize("bare, verdict", [(4.4e6, "**missed**"), (4.6e6, "out of reach"), (5.1e6, "**missed**")])
def test_tensors_in_shared_memory_are_bound_by_summing_them_unless_ours_is_faster(bare: float, verdict: str) -> None:
    peers = {OURS: peer(8100.0), OURS_SHARED: peer(5000.0)}  # 1.8x: 4.5 ms
    run = made_up([cell("all_reduce", 64 << 20, peers, style="direct")])
    run.values["before"] = {**run.values["before"], "sums": [{"bytes": 64 << 20, "sum_ns": bare}]}
    run.values["after"] = {**run.values["after"], "sums": [{"bytes": 64 << 20, "sum_ns": 2 * bare}]}
    rows = {(what, target): rest for what, target, *rest in aims.rows(run)}
    told, judged = rows["all_reduce 64 MiB, tensors allocated by the backend", "1.8x other tensors"]
    assert judged == verdict
    assert ("wanted 4.50 ms, summing the tensors where they lie alone: 4.60 ms" in told) == (judged == "out of reach")


@pytest.mark.parametrize("took, verdict", [(60.0, "reached"), (75.0, "?"), (90.0, "**missed**")])
def test_a_noisy_message_is_judged_where_noise_cannot_change_the_answer(took: float, verdict: str) -> None:
    run = made_up([cell("message", 32 << 10, {OURS: peer(took, drift=1.1)}, style="own")])
    rows = {(what, target): rest for what, target, *rest in aims.rows(run)}
    told, judged = rows["message of 512 B and 8 tensors of 4 KiB, one way", "40 us"]
    assert judged == verdict, told


def test_the_c_level_is_bound_by_what_handing_over_a_tensor_of_its_size_takes() -> None:
    run = made_up([cell("all_reduce", 16 << 20, {OURS: peer(2e3), "MPICH": peer(3e3)}, style="c")])
    tensors = [(1 << 20, 20_000), (16 << 20, 900_000), (64 << 20, 9_000_000)]
    handover = [{"bytes": size, "in_ns": time, "out_ns": time} for size, time in tensors]
    run.values["before"] = {**run.values["before"], "handover": handover}
    rows = {(what, target): rest for what, target, *rest in aims.rows(run)}
    told, judged = rows["C level, all_reduce 16 MiB, 2 ranks", "2.5x the best MPI"]
    assert told.startswith("MPICH 1.50x")
    assert told.endswith("wanted 1.20 ms, handing the data over alone: 1.80 ms")
    assert judged == "out of reach"


@pytest.mark.parametrize("ours, verdict", [(12.6, "reached"), (12.8, "**missed**")])
def test_what_a_call_adds_to_the_c_level_is_measured_in_one_cell(ours: float, verdict: str) -> None:
    there = cell("all_reduce", 64 << 10, {OURS: peer(ours), FLOOR: peer(4.0), OURS_IN_C: peer(12.0)})
    elsewhere = cell("all_reduce", 64 << 10, {OURS: peer(5.0)}, style="c")  # one call again and again: says nothing
    run = made_up([there, elsewhere])
    rows = {(what, target): rest for what, target, *rest in aims.rows(run)}
    told, judged = rows["`dist.all_reduce` 64 KiB", "floor + 0.3 us + 1.05 x C level"]
    assert told == f"floor 4.00 us + C level 8.00 us + {round((ours - 12) * 1000)} ns"
    assert judged == verdict


@pytest.mark.parametrize("wide, verdict", [(5.0, "reached"), (4.0, "**missed**")])
def test_a_type_of_two_bytes_is_judged_beside_float32_in_its_own_cell(wide: float, verdict: str) -> None:
    half = {**cell("all_reduce", 4, {OURS: peer(5.0), OURS_WIDE: peer(wide)}), "dtype": "float16"}
    elsewhere = cell("all_reduce", 8, {OURS: peer(1.0)})  # measured when the machine was faster: says nothing
    rows = {what: rest for what, _, *rest in aims.rows(made_up([half, elsewhere]))}
    assert rows["float16 all_reduce, elements per second"][-1] == verdict


@pytest.mark.usefixtures("quick_plots")
def test_a_busy_machine_is_said_first_and_condemns_nothing(tmp_path: Path) -> None:
    busy = made_up(usual(), others=1.5)
    page.write([busy], tmp_path / "performance.md")
    assert "Other programs kept 1.5 of 2 cores busy" in (tmp_path / "performance.md").read_text()
    assert not any("**missed**" in row for row in aims.rows(busy))


@pytest.mark.usefixtures("quick_plots")
def test_several_machines_have_their_targets_side_by_side(written: Path, tmp_path: Path) -> None:
    first, second = made_up(usual()), made_up(usual(), others=1.5)
    second.values["machine"]["processor"], second.values["plan"]["preset"] = "Another", "full"
    page.write([first, second], tmp_path / "performance.md")
    overview = (tmp_path / "performance.md").read_text().split("## Targets, machine by machine")[1].split("\n## ")[0]
    header, _, *lines = [line for line in overview.splitlines() if line.startswith("| ")]
    assert "Another, 2 cores" in header
    expected = zip(aims.rows(first), aims.rows(second), strict=True)
    assert lines == [f"| {one[0]} | {one[1]} | {one[3]} | {other[3]} |" for one, other in expected]
    assert "machine by machine" not in written.read_text()


@pytest.mark.usefixtures("quick_plots")
def test_two_runs_of_one_machine_have_plots_each(tmp_path: Path) -> None:
    page.write([made_up(usual()), made_up(usual()), made_up(usual())], tmp_path / "performance.md")
    shown = re.findall(r"!\[[^]]+\]\(([^)]+)\)", (tmp_path / "performance.md").read_text())
    assert len(set(shown)) == len(shown) == 6 and all((tmp_path / name).exists() for name in shown)


def test_a_processor_may_be_called_anything(tmp_path: Path) -> None:
    run = made_up(usual()[:1])
    run.values["machine"]["processor"] = "CPU $x^_{ 2$ | <b> --"
    for _, plot in headline.draw(run, tmp_path):
        assert "CPU $x^_{ 2$ | &lt;b&gt; --, 2 cores" in plot.read_text()


@pytest.mark.usefixtures("quick_plots")
def test_one_processor_has_no_distance_to_another(tmp_path: Path) -> None:
    run = made_up(usual())
    run.values["before"] = run.values["after"] = {**run.values["before"], "placement": []}
    page.write([run], tmp_path / "performance.md")
    assert "between processors not measured, there is only one." in (tmp_path / "performance.md").read_text()


@pytest.mark.usefixtures("quick_plots")
def test_results_of_two_processors_are_kept_and_judged_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "KEPT", tmp_path / "kept")
    processors = {"Intel(R) Xeon(R) Processor": "2026-01-03", "AMD EPYC": "2026-01-04"}
    for processor, date in [("Intel(R) Xeon(R) Processor", "2026-01-02"), *processors.items()]:
        run = made_up(usual())
        run.values["plan"]["preset"] = "full"
        run.values["machine"] |= {"processor": processor, "date": date}
        results.keep(run.save(tmp_path))
    kept = results.kept()
    assert [run.name for run in kept] == ["full-amd-epyc", "full-intel-xeon-processor"]
    assert {run.values["machine"]["processor"]: run.date for run in kept} == processors
    page.write(kept, tmp_path / "performance.md")
    text = (tmp_path / "performance.md").read_text()
    assert text.count("### Targets") == 2
    shown = re.findall(r"!\[[^]]+\]\(([^)]+)\)", text)
    assert len(set(shown)) == len(shown) and all((tmp_path / name).exists() for name in shown)
