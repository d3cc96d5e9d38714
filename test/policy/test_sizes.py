"""Files and functions stay small enough to read in one go."""

import ast
import warnings

from tree import below, text

FOLDERS = ("csrc", "torch_customccl", "test", "examples", "benchmarks", "scripts")
SOURCES = {".h", ".cpp", ".py"}


def test_no_source_file_is_longer_than_500_lines() -> None:
    lines = {path: text(path).count("\n") for path in below(*FOLDERS) if path.suffix in SOURCES}
    long = sorted((path for path in lines if lines[path] > 300), key=lambda path: -lines[path])
    if long:
        warnings.warn("over the 300 lines wanted: " + ", ".join(f"{path} {lines[path]}" for path in long), stacklevel=1)
    assert not {str(path): lines[path] for path in long if lines[path] > 500}


def test_no_python_function_is_longer_than_60_lines() -> None:
    """C++ functions: clang-tidy, readability-function-size."""
    long = []
    for path in below(*FOLDERS):
        if path.suffix != ".py":
            continue
        for node in ast.walk(ast.parse(text(path))):
            if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= 60:
                long.append(f"{path}:{node.lineno} {node.name}")
    assert not long
