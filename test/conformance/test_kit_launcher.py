"""Ranks that a launcher starts are judged like the kit's own; a launcher that fails ends the run with a reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from torch_customccl.conformance.cli import main
from torch_customccl.conformance.ranks import launched

MODULE = "torch_customccl.conformance.mutants"
BY_SHELL = "sh -c 'RANK=0 {cmd} & RANK=1 {cmd} & wait' {n}"
CASES = ("coll/all_reduce/ws2/f32/sum/contiguous/n31/sync/world", "fault/kill/before/ws2")


def test_a_launcher_starts_the_ranks(tmp_path: Path) -> None:
    words = ["--backend", "reference", "--import", MODULE, "--launcher", BY_SHELL, "--out", str(tmp_path)]
    assert main([*words, "--case", CASES[0], "--case", CASES[1]]) == 0
    result = json.loads((tmp_path / "result.json").read_text())
    verdicts = {case["id"]: case["verdict"] for case in result["cases"]}
    assert verdicts == {CASES[0]: "pass", CASES[1]: "not_run"}
    assert "ranks were started by a launcher" in result["suite"]["unofficial_because"]


def test_a_launcher_that_starts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--backend", "reference", "--import", MODULE, "--launcher", "sh -c 'echo no such queue' {n} {cmd}"]
    assert main([*words, "--case", CASES[0], "--out", str(tmp_path)]) == 3
    assert "the launcher started 0 of 2 ranks: no such queue" in capsys.readouterr().err


def test_a_launcher_must_say_where_number_and_command_go() -> None:
    with pytest.raises(ValueError, match=r"must contain \{n\} and \{cmd\}"):
        launched("mpirun -n 2 python")
