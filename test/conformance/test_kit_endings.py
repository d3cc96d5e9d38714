"""Whole runs, as the command line makes them: how they end, and two that once were wrong."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from torch_customccl.conformance import cli, environment, session
from torch_customccl.conformance.model import Case, CaseResult
from torch_customccl.conformance.report import junit
from torch_customccl.conformance.report.result import Result
from torch_customccl.conformance.runner import Runner
from torch_customccl.conformance.selftest import MODULE, judge_backend

CASE = "coll/all_reduce/ws2/f32/sum/contiguous/n31/sync/world"


def verdicts(result: Result) -> dict[str, str]:
    return {case["id"]: case["verdict"] for case in result["cases"]}


def test_signals_end_a_run_whose_ranks_hang_and_leave_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[Path] = []
    attempt = Runner._try

    def interrupted(self: Any, case: Case, workers: Any) -> CaseResult:
        folders.append(Path(workers.spec.directory).parent)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGINT):
            os.kill(os.getpid(), number)
        return attempt(self, case, workers)

    monkeypatch.setattr(Runner, "_try", interrupted)
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    hangs = "devices/init/named/ws2"
    words = ["--backend", "deadlock", "--import", MODULE, "--case", hangs, "--case", CASE, "--lanes", "1"]
    assert cli.main([*words, "--out", str(tmp_path)]) == cli.INTERRUPTED
    result = json.loads((tmp_path / "result.json").read_text())
    assert verdicts(result) == {hangs: "not_run", CASE: "not_run"}
    assert "interrupted" in result["suite"]["unofficial_because"]
    assert len(folders) == 1 and not folders[0].exists()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_signal_to_the_whole_process_group_leaves_the_report(tmp_path: Path) -> None:
    """As of a terminal, or of timeout(1): it ends the process that starts the ranks as well."""
    out, scratch = tmp_path / "out", tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "torch_customccl.conformance", "--backend", "gloo", "--lanes", "1"]
    made = subprocess.Popen(
        [*command, "--out", str(out)],
        env={**os.environ, "TMPDIR": str(scratch)},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    while not list(scratch.glob("conformance-*/*")):
        assert made.poll() is None
        time.sleep(0.05)
    os.killpg(made.pid, signal.SIGTERM)
    told, _ = made.communicate()
    assert made.returncode == cli.INTERRUPTED, told
    assert "Traceback" not in told
    assert "interrupted" in json.loads((out / "result.json").read_text())["suite"]["unofficial_because"]
    assert not list(scratch.glob("conformance-*"))


@pytest.mark.parametrize("module", ["broken_backend", "broken_backend.part"])
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("raise RuntimeError('cannot load libfoo.so')\n", "RuntimeError: cannot load libfoo.so"),
        (
            "class Mute(Exception):\n    def __str__(self): raise RuntimeError\nraise Mute\n",
            "Mute: its text cannot be read, __str__ raised RuntimeError",
        ),
    ],
)
def test_a_module_that_cannot_be_imported_is_named_with_its_error(
    text: str, told: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_backend.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    words = ["--backend", "toy", "--import", module, "--case", CASE, "--out", str(tmp_path)]
    assert cli.main(words) == 1
    result = json.loads((tmp_path / "result.json").read_text())
    assert verdicts(result) == {CASE: "error"}
    assert result["cases"][0]["message"].endswith(told)


def test_what_a_rank_said_before_it_died_at_start_is_in_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dying.py").write_text(
        "import os\n"
        "import torch.distributed as dist\n"
        "def made(*arguments):\n"
        "    os.write(2, b'no room for the backend\\n')\n"
        "    os._exit(3)\n"
        "dist.Backend.register_backend('dying', made, devices=['cpu'])\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    words = ["--backend", "dying", "--import", "dying", "--case", CASE, "--out", str(tmp_path / "out")]
    assert cli.main(words) == 1
    (case,) = json.loads((tmp_path / "out/result.json").read_text())["cases"]
    assert case["verdict"] == "crash" and "exited with code 3" in case["message"]
    assert all("no room for the backend" in rank["traceback"] for rank in case["ranks"] if rank["outcome"] == "died")


def test_an_all_reduce_that_kills_its_rank_is_no_verdict_for_other_operations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "killing.py").write_text(
        "import os, signal\n"
        "import torch.distributed as dist\n"
        "from torch_customccl.conformance.mutants.reference import ReferenceGroup\n"
        "class Killing(ReferenceGroup):\n"
        "    def allreduce(self, tensors, opts):\n"
        "        if self.rank() == 1:\n"
        "            os.kill(os.getpid(), signal.SIGSEGV)\n"
        "        return super().allreduce(tensors, opts)\n"
        "dist.Backend.register_backend('killing', Killing, devices=['cpu'])\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    other = "coll/broadcast/ws2/f32/contiguous/n31/sync/world/first"
    words = ["--backend", "killing", "--import", "killing", "--case", CASE, "--case", other]
    assert cli.main([*words, "--out", str(tmp_path / "out")]) == 1
    result = json.loads((tmp_path / "out/result.json").read_text())
    assert verdicts(result) == {CASE: "crash", other: "pass"}
    (crashed,) = (case for case in result["cases"] if case["id"] == CASE)
    assert crashed["message"].startswith("rank 1: rank process killed by SIGSEGV")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--backend", "nosuch", "--import", "json"], "importing json registers no backend named 'nosuch'"),
        (["--backend", "gloo", "--import", "json.nosuch"], "there is no module 'json.nosuch'"),
        (["--backend", "gloo", "--pg-options", "json.nosuch:f"], "there is no module 'json.nosuch'"),
        (["--backend", "gloo", "--pg-options", "os:nosuch"], "'os:nosuch': there is no such function"),
        (["--backend", "gloo", "--pg-options", "os:getpgid"], "'os:getpgid' raised TypeError: "),
    ],
)
def test_what_the_caller_names_must_be_there_and_work(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*words, "--case", CASE, "--out", str(tmp_path)]) == cli.USAGE
    assert told in capsys.readouterr().err
    assert not (tmp_path / "result.json").exists()


def test_every_group_gets_the_options_that_the_backend_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "choosy.py").write_text(
        "import torch.distributed as dist\n"
        "from torch_customccl.conformance.mutants.reference import ReferenceGroup\n"
        "class Options:\n"
        "    _timeout = None\n"
        "def create(made, options):\n"
        "    if type(options) is not Options:\n"
        "        raise TypeError(f'{options!r} are no Options')\n"
        "    return ReferenceGroup(made.store, made.group_rank, made.group_size, made.timeout)\n"
        "dist.Backend.register_backend('choosy', create, extended_api=True, devices=['cpu'])\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    out, path = tmp_path / "out", os.pathsep.join([str(tmp_path), *sys.path])
    words = ["--backend", "choosy", "--import", "choosy", "--pg-options", "choosy:Options", "--out", str(out)]
    words += ["--env", f"PYTHONPATH={path}"]
    made = ["group/all_reduce/half/ws4", "groups/store/file/ws2", "fault/after_failure/timeout/ws2"]
    made += ["groups/new_subgroups/by_size/ws4", "integration/device_mesh/ws4", "devices/init/named/ws2"]
    made += ["fault/exit/no_destroy/ws2", "integration/torchrun/ws2"]
    assert cli.main([*words, *(word for case in made for word in ("--case", case))]) == 0
    assert verdicts(json.loads((out / "result.json").read_text())) == dict.fromkeys(made, "pass")


@pytest.mark.parametrize("sizes", ["two", "0", "2,-1", ","])
def test_world_sizes_that_are_none_are_told_by_the_option(
    sizes: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match=str(cli.USAGE)):
        cli.main(["--backend", "gloo", "--case", CASE, "--world-sizes", sizes, "--out", str(tmp_path)])
    assert f"argument --world-sizes: {sizes.split(',')[-1]!r} is not 1 or more" in capsys.readouterr().err


def test_all_reports_are_written_where_the_locale_knows_ascii_only(tmp_path: Path) -> None:
    (tmp_path / "foreign.py").write_text("raise RuntimeError('Gr\\u00f6\\u00dfe')\n")
    out = tmp_path / "[/bold]"
    words = ["--backend", "foreign", "--import", "foreign", "--case", CASE, "--out", str(out)]
    path = os.pathsep.join([str(tmp_path), *sys.path])
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONPATH": path}
    command = [sys.executable, "-m", "torch_customccl.conformance", *words]
    done = subprocess.run(command, env=os.environ | ascii_only, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "Gr??e" in done.stdout and f"Reports: {out}/result.json" in done.stdout
    for name in ("summary.md", "junit.xml"):
        assert "Gr\u00f6\u00dfe" in (out / name).read_text(encoding="utf-8")
    assert (out / "report.html").read_text(encoding="utf-8").rstrip().endswith("</html>")


def test_a_full_disk_keeps_no_half_report_and_the_verdict_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def half(made: object, path: Path) -> None:
        path.write_text("<testsu")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(junit, "save", half)
    assert cli.main(["--backend", "gloo", "--case", CASE, "--out", str(tmp_path)]) == cli.HARNESS
    told = capsys.readouterr()
    assert f"the reports in {tmp_path} are not all there" in told.err and "No space left" in told.err
    assert "gloo" in told.out and "Reports:" not in told.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["result.json", "summary.md"]


def test_a_device_that_is_not_there_is_not_held_against_the_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    words = ["--backend", "gloo", "--device", "cuda", "--case", CASE, "--out", str(tmp_path)]
    assert cli.main(words) == cli.USAGE
    assert "--device cuda: torch finds no CUDA device here" in capsys.readouterr().err


@pytest.mark.parametrize("backend", ["gloo", "GLOO", "cpu:gloo,cuda:nccl", "mpi"])
def test_the_version_of_a_backend_of_torch_is_torchs(backend: str) -> None:
    assert environment.product(backend, ())["version"] == f"torch {torch.__version__}"
    assert environment.product("cpu:pytest", ())["version"] == environment.product("pytest", ())["version"] != "unknown"


def test_a_kit_installed_within_another_repository_has_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = tmp_path / "venv/environment.py"
    kit.parent.mkdir()
    kit.touch()
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-qm", "theirs", "--allow-empty"], check=True)
    monkeypatch.setattr(environment, "__file__", str(kit))
    assert environment.git_revision() == ""
    subprocess.run([*git, "add", str(kit)], check=True)
    subprocess.run([*git, "commit", "-qm", "a source tree of the kit"], check=True)
    assert environment.git_revision() != ""


def test_a_report_that_cannot_be_written_is_known_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(session, "_run_cases", lambda *_: pytest.fail("cases ran"))
    (tmp_path / "junit.xml").mkdir()
    assert cli.main(["--backend", "gloo", "--case", CASE, "--out", str(tmp_path)]) == cli.USAGE
    assert "junit.xml" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["junit.xml"]


def test_data_parallel_training_of_the_full_tier(tmp_path: Path) -> None:
    """A process of its own loads once what its ranks need to train."""
    words = ["--backend", "customccl", "--tier", "full", "--case", "integration/ddp*", "--world-sizes", "2"]
    command = [sys.executable, "-m", "torch_customccl.conformance", *words, "--budget", "10m", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "result.json").read_text())
    assert len(result["cases"]) == 5 and set(verdicts(result).values()) == {"pass"}


def test_the_reference_refuses_a_tensor_without_memory() -> None:
    result = judge_backend("reference", ("devices/all_gather_into_tensor/meta/ws2",))
    assert list(verdicts(result).values()) == ["pass"], result["cases"]
