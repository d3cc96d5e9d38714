"""Registration: by entry points, without C++, and without ever disturbing `import torch`."""

import sys
import warnings
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import torch.distributed as dist
from process import run_python

from torch_customccl import _autoload

NO_LIBRARY = 'assert "customccl" not in open("/proc/self/maps").read()'


@pytest.mark.parametrize(
    ("group", "function"), [("torch.backends", _autoload.autoload), ("torch.distributed.backends", _autoload.register)]
)
def test_entry_points_are_declared(group, function):
    assert {entry.load() for entry in entry_points(group=group) if entry.name == "customccl"} == {function}


def test_a_process_that_imports_torch_loads_no_library(tmp_path):
    run_python(
        f"""
        import torch, torch_customccl
        assert torch.distributed.is_backend_available("customccl")
        {NO_LIBRARY}
        """,
        tmp_path,
    )


def test_what_is_public_is_listed_without_being_loaded(tmp_path):
    run_python(
        f"""
        import sys, torch_customccl, torch_customccl.launch
        assert set(torch_customccl.__all__) <= set(dir(torch_customccl))
        assert set(torch_customccl.launch.__all__) <= set(dir(torch_customccl.launch))
        assert "torch" not in sys.modules
        {NO_LIBRARY}
        import pydoc
        page = pydoc.plain(pydoc.render_doc(torch_customccl))
        assert all(name + "(" in page for name in torch_customccl.__all__ if name[0].islower())
        """,
        tmp_path,
    )


@pytest.mark.parametrize("autoload", ["0", "1"])
def test_the_end_of_python_is_awaited_once_also_where_torch_is_told_to_load_no_backends(tmp_path, autoload):
    said = run_python(
        """
        from torch_customccl._loader import load
        load().python_ends = lambda: print("it ends")
        """,
        tmp_path,
        TORCH_DEVICE_BACKEND_AUTOLOAD=autoload,
    )
    assert said == "it ends\n"


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_data_loader_workers_load_no_library(tmp_path, method):
    script = tmp_path / "loader.py"
    script.write_text(
        f"""
import torch
from torch.utils.data import DataLoader, Dataset

class Maps(Dataset):
    def __len__(self): return 2
    def __getitem__(self, index): return int("customccl" in open("/proc/self/maps").read())

if __name__ == "__main__":
    loader = DataLoader(Maps(), num_workers=1, multiprocessing_context={method!r})
    assert [int(batch) for batch in loader] == [0, 0]
"""
    )
    run_python(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')", tmp_path)


def test_registering_twice_changes_nothing():
    before = dict(dist.Backend._plugins)
    _autoload.register()
    _autoload.autoload()
    assert dist.Backend._plugins == before
    assert dist.Backend.backend_list.count("customccl") == 1


def test_other_backends_keep_their_devices():
    assert dist.Backend.default_device_backend_map["cpu"] == "gloo"
    assert set(dist.Backend.default_device_backend_map).isdisjoint("cpu")  # no device named "c", "p" or "u"
    assert dist.Backend.backend_capability["customccl"] == ["cpu"]


class BrokenError(Exception):
    pass


def broken(*_args, **_kwargs):
    raise BrokenError("on purpose")


def unregistered(monkeypatch):
    monkeypatch.delitem(dist.Backend._plugins, "CUSTOMCCL")


def test_a_failing_registration_is_a_warning(monkeypatch):
    unregistered(monkeypatch)
    monkeypatch.setattr(dist.Backend, "register_backend", broken)
    with pytest.warns(UserWarning, match="could not register its backend: BrokenError: on purpose"):
        _autoload.autoload()


def test_a_failing_registration_is_silent_where_warnings_are_errors(monkeypatch):
    unregistered(monkeypatch)
    monkeypatch.setattr(dist.Backend, "register_backend", broken)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _autoload.autoload()


def test_a_torch_without_distributed_is_left_alone(monkeypatch):
    unregistered(monkeypatch)
    monkeypatch.setattr(dist, "is_available", lambda: False)
    monkeypatch.setattr(dist.Backend, "register_backend", broken)
    _autoload.register()


def test_a_torch_without_dist2_still_registers(monkeypatch):
    unregistered(monkeypatch)
    monkeypatch.setitem(sys.modules, "torch.distributed._dist2", None)
    monkeypatch.delattr(dist, "_dist2", raising=False)
    _autoload.register()
    assert "CUSTOMCCL" in dist.Backend._plugins


def test_import_torch_survives_an_installation_without_libraries(tmp_path):
    package = tmp_path / "torch_customccl"
    package.mkdir()
    for path in (Path(_autoload.__file__).parent).glob("*.py"):
        (package / path.name).write_text(path.read_text())
    output = run_python(
        """
        import torch, torch_customccl
        assert torch_customccl.__file__.startswith(__import__("os").getcwd()), torch_customccl.__file__
        try:
            torch.distributed.init_process_group("customccl", store=torch.distributed.HashStore(), rank=0, world_size=1)
        except RuntimeError as error:
            print("refused:", error)
        """,
        tmp_path,
        PYTHONPATH=str(tmp_path),
    )
    assert "refused: torch_customccl" in output
    assert "has no shim for torch" in output
