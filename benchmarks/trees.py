"""Source trees to compare: a folder with a built library, or a commit, which is exported and built once."""

import subprocess
import sys
from pathlib import Path

from rich.console import Console

from benchmarks import native

FOLDER = native.BUILD / "trees"


def built(name: str, console: Console) -> Path:
    """The root of a tree with built libraries. ValueError for what is neither a folder nor a commit."""
    if Path(name).is_dir():
        return Path(name)
    commit = _git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").strip()
    tree = FOLDER / commit[:12]
    if not (tree / "built").exists():
        console.print(f"building {name} ({commit[:12]}): a few minutes, once", markup=False)
        _export(commit, tree)
        _build(tree)
        (tree / "built").touch()
    return tree


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(native.ROOT), *arguments], capture_output=True, text=True)
    if done.returncode:
        raise ValueError(
            f"git {arguments[0]} {arguments[-1]}: {done.stderr.strip() or 'neither a folder nor a commit'}"
        )
    return done.stdout


def _export(commit: str, tree: Path) -> None:
    tree.mkdir(parents=True, exist_ok=True)
    archive = tree / "archive.tar"
    _git("archive", "--output", str(archive), commit)
    subprocess.run(["tar", "-xf", str(archive), "-C", str(tree)], check=True)
    archive.unlink()


def _build(tree: Path) -> None:
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"{tree} does not build: {done.stderr.strip()[-500:]}")
