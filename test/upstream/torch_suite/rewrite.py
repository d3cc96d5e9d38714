"""Loads torch's distributed_test as if its author had known the backend under test.

The file decides by name which backend runs which test: a new name is denied two thirds of them. Here its syntax tree is
changed between reading and compiling, so that nothing of the file is copied and its line numbers stay true:

    BACKEND != "gloo", BACKEND != "mpi"       false for the backend under test: it runs what either of the two runs
    BACKEND == "gloo"                         true: it takes gloo's path inside a test's body
    require_backend_is_available({"gloo"})    allows it
    new_group(backend="gloo")                 makes the helper groups of a test on the backend under test as well

For gloo itself nothing is changed.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from types import ModuleType

import torch.distributed as dist
from torch.testing._internal import common_distributed

NAME = "torch.testing._internal.distributed.distributed_test"
RUNS_LIKE = {"gloo", "mpi"}  # what the CPU tests of these two do, a first-class CPU backend does
FEATURES = ("gpu", "cuda", "ddp", "subgroup", "plugin")
PROFILED = (
    "PROFILING_SUPPORTED_BACKENDS",
    "CUDA_PROFILING_SUPPORTED_BACKENDS",
    "SEND_RECV_PROFILING_SUPPORTED_BACKENDS",
)


def load(backend: str) -> ModuleType:
    """The module, under its own name in sys.modules (objects that its tests pickle must be found there)."""
    if backend == dist.Backend.GLOO:
        return importlib.import_module(NAME)
    for feature in FEATURES:
        common_distributed.DistTestCases.backend_feature[feature].add(backend)
    spec = importlib.util.find_spec(NAME)
    assert spec is not None and spec.origin is not None, f"this torch does not have {NAME}"
    with open(spec.origin) as file:
        tree = ast.parse(file.read(), spec.origin)
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    opened = ast.fix_missing_locations(_Opener(backend).visit(tree))
    # Inheriting this file's `annotations` would turn those of the tests' hooks, which torch checks, into strings.
    exec(compile(opened, spec.origin, "exec", dont_inherit=True), module.__dict__)
    for name in PROFILED:
        getattr(module, name).append(backend)
    return module


class _Opener(ast.NodeTransformer):
    """Counts what it changed: a torch whose file says the same in other words must not go unnoticed."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self.changed = {"==": 0, "!=": 0, "require": 0, "new_group": 0}

    def visit_Module(self, node: ast.Module) -> ast.AST:
        self.generic_visit(node)
        missing = [what for what, times in self.changed.items() if times == 0]
        assert not missing, f"{NAME} of this torch is written differently: found no place for {missing}"
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        right = node.comparators[0]
        if not (isinstance(node.left, ast.Name) and node.left.id == "BACKEND" and isinstance(right, ast.Constant)):
            return self.generic_visit(node)
        if isinstance(node.ops[0], ast.NotEq) and right.value in RUNS_LIKE:
            self.changed["!="] += 1
            return ast.copy_location(ast.Constant(False), node)
        if isinstance(node.ops[0], ast.Eq) and right.value == "gloo":
            self.changed["=="] += 1
            return ast.copy_location(ast.Constant(True), node)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        if node.name == "require_backend_is_available":
            self.changed["require"] += 1
            allow = f"if not {RUNS_LIKE!r}.isdisjoint(backends):\n    return lambda function: function"
            node.body[:0] = [ast.copy_location(statement, node.body[0]) for statement in ast.parse(allow).body]
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if ast.unparse(node.func) == "dist.new_group":
            for keyword in node.keywords:
                if keyword.arg == "backend" and ast.unparse(keyword.value) in ("dist.Backend.GLOO", "'gloo'"):
                    self.changed["new_group"] += 1
                    keyword.value = ast.copy_location(ast.Constant(self.backend), keyword.value)
        return node
