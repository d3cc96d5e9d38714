"""Who takes which turn, when a cell ends, and what the command line makes of it."""

import pytest

from benchmarks import __main__ as command_line
from benchmarks import compare, plan, styles
from benchmarks.operations import OPERATIONS
from benchmarks.peers import PEERS
from benchmarks.plan import Plan
from benchmarks.sampling import Burst, Limits, burst_for, enough, program_burst, round_order


@pytest.mark.parametrize("peers", [1, 2, 5])
def test_a_round_is_an_order_and_its_mirror_image(peers: int) -> None:
    order = round_order(peers, 7)
    assert sorted(order[:peers]) == list(range(peers))
    assert order[peers:] == order[:peers][::-1]


def test_all_ranks_draw_the_same_order_and_rounds_differ() -> None:
    assert round_order(6, 3) == round_order(6, 3)
    assert len({tuple(round_order(6, number)) for number in range(20)}) > 10


def test_a_cell_ends_by_time_by_rounds_and_by_patience() -> None:
    limits = Limits(seconds=1.0, least=8, most=40)
    assert not enough(7, 1.5, limits)
    assert enough(8, 1.5, limits)
    assert not enough(39, 0.5, limits)
    assert enough(40, 0.5, limits)
    assert enough(3, 4.5, limits)
    assert not enough(2, 100.0, limits)


@pytest.mark.parametrize("preset", plan.PRESETS)
def test_presets_hold_what_can_be_measured_and_survive_json(preset: str) -> None:
    chosen = command_line.plan_of(command_line.parser().parse_args(["run", f"--{preset}"]))
    assert Plan.from_dict(chosen.as_dict()) == chosen
    for ranks in chosen.ranks:
        cells = chosen.cells(ranks)
        assert len(cells) == len(set(cells)) > 20
        for cell in cells:
            named = {plan.STEP: command_line.WORKLOADS, plan.OWN: plan.OWN_CALLS}
            assert cell.operation in named.get(cell.style, ()) or cell.operation in styles.operations(cell.style)
        assert {cell.operation for cell in chosen.c_cells(ranks)} <= set(OPERATIONS)


def test_steps_take_longer() -> None:
    made = plan.full([2], list(PEERS))
    times = {cell.style: made.limits_of(cell).seconds for cell in made.cells(2)}
    assert times[plan.STEP] == 16 * times["dist"] == 16 * made.limits.seconds


def test_low_precision_has_as_many_elements_as_float32() -> None:
    cells = command_line.plan_of(command_line.parser().parse_args(["run", "--full"])).cells(2)
    wide = {
        cell.size for cell in cells if (cell.style, cell.dtype, cell.operation) == ("dist", "float32", "all_reduce")
    }
    narrow = {cell.size for cell in cells if (cell.dtype, cell.operation) == ("bfloat16", "all_reduce")}
    assert narrow and {2 * size for size in narrow} <= wide


def test_sizes_with_units() -> None:
    assert [command_line.parse_size(word) for word in ("8", "64K", "16m", "1G")] == [8, 65536, 16 << 20, 1 << 30]


def test_an_unknown_operation_is_named() -> None:
    with pytest.raises(ValueError, match="all_reuce; known: all_reduce"):
        command_line.plan_of(command_line.parser().parse_args(["run", "--ops", "all_reuce"]))


@pytest.mark.parametrize(
    "words", [("--ranks", "0"), ("--ranks", "two"), ("--sizes", "8,-8"), ("--sizes", "8,"), ("--sizes", "K")]
)
def test_numbers_that_are_none_are_told_by_their_option(words: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match=f"{words[0]} '{words[1]}': numbers from 1 on are needed"):
        command_line.plan_of(command_line.parser().parse_args(["run", *words]))


def test_who_is_short_warms_up_and_the_longest_says_how_many_are_timed() -> None:
    assert burst_for(1e-5, 1e-4, crowded=False) == Burst(1, 4)
    assert burst_for(1e-5, 1e-4, crowded=True) == Burst(4, 4)
    assert burst_for(1e-5, 5e-3, crowded=True) == Burst(4, 1)
    assert burst_for(5e-3, 5e-3, crowded=True) == Burst(0, 1)


def test_a_program_that_was_woken_makes_many_short_calls_or_one_long_one() -> None:
    assert program_burst(1e-6, crowded=False) == Burst(25, 100)
    assert program_burst(2e-4, crowded=False) == Burst(2, 10)
    assert program_burst(9e-4, crowded=True) == Burst(5, 22)
    assert program_burst(5e-2, crowded=True) == Burst(0, 1)


@pytest.mark.parametrize("command", ["install", "run", "report", "compare"])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        command_line.parser().parse_args([command, "--help"])
    assert end.value.code == 0
    assert f"benchmarks {command}" in capsys.readouterr().out


def test_a_run_measures_every_peer_there_is() -> None:
    assert set(command_line.parser().parse_args(["run"]).peers.split(";")) == set(PEERS)


@pytest.mark.parametrize(
    "words, told",
    [
        (["run", "--peers", "customccl;glooo"], "unknown: glooo; known: customccl; gloo"),
        (["run", "--ranks", "65"], "--ranks: at most 64"),
        (["run", "--out", __file__], "exists"),
        (["run", "--rounds", "2"], "--rounds: at least 3"),
        (["compare", ".", ".", "--rounds", "1"], "--rounds: at least 5"),
        (["compare", ".", ".", "--ops", "all_reduce,all_redcue"], "unknown: all_redcue"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(words) == 1
    assert told in capsys.readouterr().err


def test_ctrl_c_ends_it_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(compare, "trees", interrupted)
    assert command_line.main(["compare", ".", "."]) == 130
    assert capsys.readouterr().err == "interrupted: nothing is kept\n"


def test_operations_to_compare_may_have_spaces_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def trees(*arguments: object) -> list[compare.Compared]:
        seen.extend(arguments)
        return []

    monkeypatch.setattr(compare, "trees", trees)
    assert command_line.main(["compare", ".", ".", "--ops", "all_reduce, barrier"]) == 0
    assert ["all_reduce", "barrier"] in seen


def test_sums_that_a_type_cannot_hold_are_not_measured() -> None:
    for ranks, dtypes in ((13, {"float32", "bfloat16", "float16"}), (14, {"float32", "float16"}), (64, {"float32"})):
        assert {cell.dtype for cell in plan.full([ranks], list(PEERS)).cells(ranks)} == dtypes
