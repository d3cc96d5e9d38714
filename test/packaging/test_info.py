"""python -m torch_customccl info: complete, readable, and there even when the shim is not."""

import json

import pytest
from process import ROOT, run_python

import torch_customccl
from torch_customccl import _info, _loader, _report
from torch_customccl.__main__ import main


def test_the_facts_are_complete():
    facts = torch_customccl.info()
    assert facts["problem"] is None
    assert facts["versions"]["torch_customccl"] == torch_customccl.__version__ == facts["library"]["version"]
    assert {"compiler", "build_type", "instruction_set", "usable_cpus", "cgroup_cpu_limit"} <= set(facts["library"])
    assert facts["library"]["usable_cpus"] >= 1
    assert facts["library"]["cache_domains"]
    assert all({"name", "works", "detail"} == set(mechanism) for mechanism in facts["library"]["mechanisms"])
    assert len(facts["library"]["mechanisms"]) >= 4
    assert facts["shared_memory"]["size"] >= facts["shared_memory"]["used"]


def test_the_text_shows_every_setting_and_mechanism(capsys):
    assert main(["info"]) == 0
    text = capsys.readouterr().out
    library = torch_customccl.info()["library"]
    for row in library["settings"]:
        assert row["variable"] in text
        assert row["meaning"] in text
    for mechanism in library["mechanisms"]:
        assert mechanism["name"] in text
    assert max(map(len, text.splitlines())) < 200


def test_json_is_the_same_facts(capsys):
    assert main(["info", "--json"]) == 0
    assert json.loads(capsys.readouterr().out).keys() == torch_customccl.info().keys()


def test_without_a_shim_the_reason_stands_in_the_text(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(_loader, "FOLDER", tmp_path)
    assert main(["info"]) == 1
    text = capsys.readouterr().out
    assert "The backend cannot be used here: torch_customccl" in text
    assert "/dev/shm" in text
    assert main(["info", "--settings-markdown"]) == 1
    assert "has no shim" in capsys.readouterr().err


BROKEN_TORCHES = {
    "none": ("raise ModuleNotFoundError('No module named torch')", "(ModuleNotFoundError: No module named torch)"),
    "one without its libraries": ("raise OSError('libcudart.so.12: cannot open')", "(OSError: libcudart.so.12: cannot"),
    "another": ("__version__ = '2.99.0'", "has no shim for torch 2.99"),
}


@pytest.mark.parametrize("kind", BROKEN_TORCHES)
def test_without_a_usable_torch_the_reason_stands_in_the_text(kind, tmp_path):
    content, says = BROKEN_TORCHES[kind]
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(content)
    command = "import sys; from torch_customccl.__main__ import main; sys.exit(main(['info', *MORE]))"
    for more in ([], ["--json"], ["--settings-markdown"]):
        path = f"{tmp_path}:{ROOT}"
        text = run_python(command.replace("MORE", repr(more)), tmp_path, expect=1, PYTHONPATH=path)
        assert says in text and "Traceback" not in text


def test_a_machine_without_dev_shm_is_described():
    assert _info.shared_memory("/nowhere") == {"path": "/nowhere", "problem": "No such file or directory"}


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1536, "1.5 KiB"), (1 << 20, "1 MiB"), (3 << 30, "3 GiB"), (1 << 40, "1 TiB")]
)
def test_sizes_are_readable(count, text):
    assert _report.size(count) == text
