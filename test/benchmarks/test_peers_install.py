"""Peers are fetched whole or not at all; no network: the archives are made here."""

import io
import tarfile
from pathlib import Path

import pytest

from benchmarks import install

SOURCES = ("csrc/cpu/comm/shm.cpp", "csrc/cpu/comm/shm_interface.cpp")


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """DeepSpeed's, as it would be downloaded; "building" it reads its sources."""
    made = tmp_path / "deepspeed.tar.gz"
    with tarfile.open(made, "w:gz") as tar:
        for name in SOURCES:
            member = tarfile.TarInfo(f"deepspeed-{install.DEEPSPEED}/{name}")
            member.size = 3
            tar.addfile(member, io.BytesIO(b"//\n"))
    monkeypatch.setattr(install, "FOLDER", tmp_path / "peers")
    monkeypatch.setattr(install, "_download", lambda *_: [made])

    def load() -> None:
        for name in SOURCES:
            (install.deepspeed_sources().parents[1] / name).read_text()

    monkeypatch.setattr(install, "load_deepspeed", load)
    return made


def test_what_could_not_be_unpacked_is_unpacked_again(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = tarfile.TarFile.makefile

    def no_space(tar: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
        if "interface" in member.name:
            raise OSError(28, "No space left on device")
        make(tar, member, path)

    with monkeypatch.context() as full:
        full.setattr(tarfile.TarFile, "makefile", no_space)
        assert "No space" in install._try(install._install_deepspeed)
    assert install._try(install._install_deepspeed) == "ready"
    assert [path.name for path in install.FOLDER.iterdir()] == [f"deepspeed-{install.DEEPSPEED}"]


def test_an_archive_that_is_cut_off_is_a_reason_and_no_traceback(archive: Path) -> None:
    archive.write_bytes(b"cut")
    assert install._try(install._install_deepspeed).startswith("not installed: ")
