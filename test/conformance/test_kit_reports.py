"""What a run writes: valid by its schema, readable as JUnit, comparable, and a page that works in a browser."""

from __future__ import annotations

import html
import json
import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import torch
from harness.installed import installed
from rich.console import Console

from torch_customccl.conformance.cli import main
from torch_customccl.conformance.model import Case, CaseResult, RankOutcome, Verdict
from torch_customccl.conformance.report import compare, matrix, portable, writer
from torch_customccl.conformance.report import result as result_file
from torch_customccl.conformance.report.result import RunFacts, build, exit_code

SCHEMA = Path(result_file.__file__).with_name("schema.json")
DIMS = {"op": "all_reduce", "dtype": "f32", "layout": "contiguous", "reduce_op": "sum"}


def made(*verdicts: Verdict, tier: str = "standard", said: RankOutcome | None = None) -> dict[str, Any]:
    results = []
    for number, verdict in enumerate(verdicts):
        case = Case(f"coll/all_reduce/ws2/case{number}", "data", "AR-01", "data", 2, DIMS)
        stack = 'Thread 1\n  File "wait_for_peer.py", line 7' if verdict is Verdict.HANG else ""
        ranks = [RankOutcome(rank, "stuck" if stack else "ok", stack=stack, message="no answer\x00") for rank in (0, 1)]
        ranks = [said] if said else ranks
        results.append(CaseResult(case, verdict, [] if verdict is Verdict.PASS else ranks, duration_ms=2.5))
    environment = {
        "torch": "2.13.0",
        "python": "3.11",
        "os": "Linux",
        "cpu": "x",
        "cores": 2,
        "ram_gib": 4.0,
        "shm_mib": 1,
        "container": False,
        "env": {},
    }
    facts = RunFacts(
        "toy",
        "cpu",
        tier,
        1,
        "python -m torch_customccl.conformance --backend toy",
        False,
        ["a test"],
        "abc",
        {"backend": "toy", "version": "1", "modules": []},
        environment,
        "2026-01-01T00:00:00",
        1.0,
        "python -m torch_customccl.conformance --backend toy --seed 1",
    )
    return build(facts, results)


ALL = made(*Verdict)


def test_the_schema_accepts_every_verdict() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(json.loads(json.dumps(ALL)), json.loads(SCHEMA.read_text()))


def test_a_result_file_is_read_back_and_a_newer_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    result_file.save(ALL, path)
    assert result_file.load(path) == json.loads(path.read_text())
    packed = tmp_path / "result.json.gz"
    assert main(["pack", str(path), str(packed)]) == 0
    assert result_file.load(packed) == ALL
    assert main(["pack", str(path), str(tmp_path / "packed.json")]) == 2
    assert not (tmp_path / "packed.json").exists()
    path.write_text(json.dumps({**ALL, "schema_version": 99}))
    with pytest.raises(ValueError, match="schema version 99"):
        result_file.load(path)


def test_a_result_names_no_path_of_its_machine() -> None:
    result = made(Verdict.HANG)
    result["suite"]["command"] = "python -m torch_customccl.conformance --backend toy --out '/home/a b' --seed 2"
    home = Path(portable.__file__).parents[3]
    texts = (
        f'File "{home}/torch_customccl/x.py", line 7',
        'File "/home/me/lib/python3.11/site-packages/torch/y.py"',
        "/usr/lib/python3.11/z.py:3: W",
    )
    result["cases"][0]["ranks"][0]["stack"] = "\n".join(texts)
    portable.portable(result)
    assert result["suite"]["command"] == "python -m torch_customccl.conformance --backend toy --seed 2"
    assert (
        result["cases"][0]["ranks"][0]["stack"] == 'File "torch_customccl/x.py", line 7\nFile "torch/y.py"\nz.py:3: W'
    )


def test_what_a_backend_wrote_steers_no_terminal() -> None:
    result = made(Verdict.ERROR)
    result["cases"][0]["message"] = "a\0\x1b[31mred\x07\r\x9b2J\tb\nc\u00e9"
    portable.portable(result)
    assert result["cases"][0]["message"] == "a??[31mred???2J\tb\nc\u00e9"


def test_junit_counts_and_keeps_the_stacks(tmp_path: Path) -> None:
    writer.write_all(ALL, tmp_path, packed=True)
    suite = ET.parse(tmp_path / "junit.xml").getroot()[0]
    assert suite.attrib["tests"] == str(len(Verdict))
    counts = {name: int(suite.attrib[name]) for name in ("errors", "failures", "skipped")}
    assert counts == {"errors": 5, "failures": 5, "skipped": 3}
    errors = {element.attrib["type"] for element in suite.iter("error")}
    assert errors == {"hang", "crash", "error", "asymmetric", "harness_error"}
    assert "wait_for_peer.py" in (tmp_path / "junit.xml").read_text()
    assert (tmp_path / "official.zip").stat().st_size > 1000


def test_what_a_backend_says_spoils_no_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    info = {"distance": torch.tensor(3), "share": float("nan")}
    text = "bad </script><script>alert(1)</script> \udcff \x00"
    result = made(Verdict.ERROR, said=RankOutcome(0, "raised", message=text, info=info))
    writer.write_all(result, tmp_path, packed=False)
    writer.print_summary(result, tmp_path, Console())
    assert "script&gt; ?" in capsys.readouterr().out
    summary = (tmp_path / "summary.md").read_text()
    assert "<script>" not in summary and "&lt;script&gt;" in summary
    assert ET.parse(tmp_path / "junit.xml").getroot()[0].attrib["errors"] == "1"
    rank = json.loads((tmp_path / "result.json").read_text())["cases"][0]["ranks"][0]
    assert rank["info"] == {"distance": "tensor(3)", "share": "NaN"}


def test_exit_codes() -> None:
    assert exit_code(made(Verdict.PASS, Verdict.UNSUPPORTED)) == 0
    assert exit_code(made(Verdict.PASS, Verdict.WRONG_RESULT)) == 1
    assert exit_code(made(Verdict.PASS, Verdict.HARNESS_ERROR)) == 3
    assert exit_code(made(Verdict.UNSUPPORTED, Verdict.NOT_RUN)) == 4
    assert main(["--backend", "gloo", "--profile", "nonsense"]) == 2
    assert main(["--explain", "XX-99"]) == 2


def test_compare_puts_regressions_first(tmp_path: Path) -> None:
    before, after = made(Verdict.PASS, Verdict.HANG), made(Verdict.CRASH, Verdict.PASS, Verdict.PASS)
    difference = compare.compare(before, after)
    assert [row[1:] for row in difference.regressions] == [("pass", "crash")]
    assert len(difference.improvements) == 1 and len(difference.added) == 1
    paths = [tmp_path / name for name in ("a.json", "b.json")]
    for path, each in zip(paths, (before, after), strict=True):
        result_file.save(each, path)
    assert main(["compare", *map(str, paths)]) == 1
    assert main(["compare", str(paths[0]), str(paths[0])]) == 0
    stopped = compare.compare(made(Verdict.WRONG_RESULT), made(Verdict.NOT_RUN))
    assert [row[1:] for row in stopped.regressions] == [("wrong_result", "not_run")], "what it was is no longer known"
    with pytest.raises(ValueError, match="tier differs"):
        compare.compare(before, made(Verdict.PASS, tier="full"))


def test_a_case_that_the_later_run_lacks_no_longer_ran(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / name for name in ("a.json", "b.json")]
    for path, each in zip(paths, (made(Verdict.PASS, Verdict.HANG), made(Verdict.PASS)), strict=True):
        result_file.save(each, path)
    assert main(["compare", *map(str, paths)]) == 1
    assert "regression  coll/all_reduce/ws2/case1: hang -> not_run" in capsys.readouterr().out
    assert main(["compare", *map(str, paths), "--force"]) == 0
    assert "0 regressions, 0 other changes, 0 added, 1 deleted, 1 unchanged" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[1]", "is no result of this kit"),
        ("{", "Expecting property name"),
        (json.dumps({**ALL, "cases": [{"id": "x"}]}), r"cases\[0\] lacks 'family'"),
        (json.dumps({name: part for name, part in ALL.items() if name != "product"}), "lacks 'product'"),
        (json.dumps({**ALL, "suite": []}), "suite is no object"),
    ],
)
def test_what_is_no_whole_result_is_refused_in_one_sentence(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "part.json"
    path.write_text(text)
    for words in (["compare", path, path], ["matrix", path], ["pack", path, tmp_path / "x.json.gz"]):
        assert main([str(word) for word in words]) == 2
        assert re.search(told, capsys.readouterr().err.replace("\n", ""))


def test_what_is_no_score_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "score.json"
    path.write_text('{"caught": 3}')
    assert main(["--backend", "gloo", "--tier", "smoke", "--selftest-score", str(path)]) == 2
    assert "is no score of the selftest: it lacks 'total'" in capsys.readouterr().err.replace("\n", "")


def test_the_matrix_has_a_column_for_each_run_and_one_for_nccl() -> None:
    page = matrix.as_markdown([made(Verdict.PASS), made(Verdict.WRONG_RESULT)])
    assert "| operation | toy (cpu) | toy (cpu) | nccl (cuda) |" in page
    assert re.search(r"\| all_reduce \| ✓ 1 \| ✗ wrong_result \(0/1 pass\) \| not run \|", page)


def test_the_matrix_is_stale_when_it_or_a_new_run_says_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, same, other, page = (tmp_path / name for name in ("kept.json", "same.json", "other.json", "page.md"))
    result_file.save(made(Verdict.PASS, Verdict.HANG), kept)
    result_file.save(made(Verdict.PASS, Verdict.NOT_RUN, tier="smoke"), same)
    result_file.save(made(Verdict.PASS, Verdict.PASS), other)
    words = ["matrix", str(kept), "--out", str(page)]
    assert main(words) == 0
    assert main([*words, "--check"]) == 0
    assert main([*words, "--check", "--against", str(same)]) == 0
    assert main([*words, "--check", "--against", str(other)]) == 1
    assert "case1: kept hang, now pass" in capsys.readouterr().out
    page.write_text("edited by hand")
    assert main([*words, "--check"]) == 1


def text_of_page(path: Path, address: str, tmp_path: Path) -> str:
    """The page as it stands after its script has run."""
    done = subprocess.run(
        [
            installed("chromium", "chromium", "chromium-browser", "google-chrome"),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path}/profile",
            "--virtual-time-budget=3000",
            "--dump-dom",
            f"file://{path}#{address}",
        ],
        capture_output=True,
        text=True,
        timeout=110,
        check=True,
    )
    body = done.stdout.split("<main>")[1].split("</main>")[0]
    return html.unescape(re.sub(r"<[^>]+>", " ", body))


def test_the_page_filters_by_its_address_and_shows_the_stacks_of_a_hang(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    writer.write_html([ALL], path)
    assert not re.search(r"(src|href)=\"(?!https://docs|https://github)", path.read_text()), "the page loads something"
    everything = text_of_page(path, "", tmp_path)
    assert f"{len(Verdict)} cases, worst first" in everything
    hang = text_of_page(path, "rows=op&cols=dtype&verdict=hang", tmp_path)
    assert "1 cases, worst first" in hang and "wait_for_peer.py" in hang and "rank 1: stuck" in hang
    cell = text_of_page(path, "verdict=crash&row=all_reduce&col=f32&run=toy (cpu)", tmp_path)
    assert "1 cases in toy (cpu), all_reduce x f32" in cell


def test_the_matrix_page_is_made_from_the_kept_results() -> None:
    docs = Path(__file__).parents[2] / "docs"
    kept = sorted((docs / "results" / "conformance").glob("*.json.gz"))
    assert [path.name for path in kept][:1] == ["customccl-cpu.json.gz"]
    assert matrix.as_markdown([result_file.load(path) for path in kept]) == (docs / "feature-matrix.md").read_text()
