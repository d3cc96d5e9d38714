"""Choosing the shim: by torch's minor version, before anything is loaded; a sentence when there is none."""

import importlib
import shlex
import shutil
import sys

import pytest
import torch
from process import run_python

import torch_customccl
from torch_customccl import _loader


def test_the_shim_of_this_torch_loads():
    assert _loader.torch_minor() in _loader.shims()
    assert _loader.load() is _loader.load()


def test_another_torch_gets_one_sentence_with_both_versions_and_the_command(monkeypatch):
    have = _loader.torch_minor()
    monkeypatch.setattr(torch, "__version__", "2.99.1+cu999")
    with pytest.raises(RuntimeError) as caught:
        _loader.load()
    said = str(caught.value)
    assert "no shim for torch 2.99 (found torch 2.99.1+cu999;" in said
    assert f"Python {sys.version_info[0]}.{sys.version_info[1]}: {have})" in said
    assert f"{shlex.quote(sys.executable)} -m pip install --no-build-isolation" in said
    assert "\n" not in said


def test_an_installation_without_shims_says_none(monkeypatch, tmp_path):
    monkeypatch.setattr(_loader, "FOLDER", tmp_path)
    with pytest.raises(RuntimeError, match=r": none\); build one with: "):
        _loader.load()


def test_a_shim_that_does_not_load_says_why(monkeypatch):
    def refuse(name):
        raise ImportError(f"{name}: undefined symbol: _ZN3c10")

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(RuntimeError, match=r"does not load \(.*undefined symbol.*\); rebuild it with: .*pip install"):
        _loader.load()


@pytest.mark.parametrize(
    ("record", "argument"),
    [
        ('{"url": "file:///usr/src", "dir_info": {}}', "/usr/src"),
        ('{"url": "file:///nowhere/at/all", "dir_info": {}}', "--no-binary torch_customccl"),
        ("not json", "--no-binary torch_customccl"),
        (None, "--no-binary torch_customccl"),
    ],
)
def test_the_rebuild_command_names_where_the_package_came_from(monkeypatch, tmp_path, record, argument):
    class Distribution:
        def read_text(self, _name):
            return record

    monkeypatch.setattr(_loader, "FOLDER", tmp_path / "torch_customccl")
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _name: Distribution())
    assert argument in _loader.rebuild_command()


def test_the_rebuild_command_is_safe_in_a_shell(monkeypatch, tmp_path):
    package = tmp_path / "with space; $HOME" / "torch_customccl"
    package.mkdir(parents=True)
    (package.parent / "setup.py").touch()
    monkeypatch.setattr(_loader, "FOLDER", package)
    monkeypatch.setattr(sys, "executable", "/my env/bin/python")
    words = shlex.split(_loader.rebuild_command())
    assert words[:4] == ["/my env/bin/python", "-m", "pip", "install"] and words[-2:] == ["-e", str(package.parent)]


def test_the_package_offers_what_it_says():
    assert torch_customccl.Options is _loader.load().Options
    assert issubclass(torch_customccl.Options, torch._C._distributed_c10d.Backend.Options)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = torch_customccl.nonsense


def test_a_library_of_another_build_is_refused(tmp_path):
    """A shim that sees other class layouts than the library has would crash, or worse."""
    package = tmp_path / "torch_customccl"
    shutil.copytree(_loader.FOLDER, package, ignore=shutil.ignore_patterns("conformance", "__pycache__"))
    stamp = _loader.load().build_stamp.encode()
    assert len(stamp) == 64
    library = package / "libcustomccl.so"
    content = library.read_bytes()
    assert content.count(stamp) == 1
    library.write_bytes(content.replace(stamp, b"0" * 64))
    said = run_python(
        """
        import torch_customccl
        try:
            torch_customccl.Options
        except RuntimeError as error:
            print(error)
        """,
        tmp_path,
        PYTHONPATH=str(tmp_path),
    )
    assert f"stamp {'0' * 12}, the shim has {stamp[:12].decode()}" in said
    assert "libcustomccl.so beside it is of another build" in said
    assert "rebuild it with: " in said
    assert said.count("\n") == 1
