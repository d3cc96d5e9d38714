"""Send a function to another process by name: a top-level function, or one nested in a test (then with its closure).

A nested function cannot be pickled, but its code lies in the module that the other process imports as well; only the
values it closes over have to travel. So a test reads top to bottom, with the body of its ranks inside it.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any

LOCALS = "<locals>"


@dataclass(frozen=True)
class FunctionName:
    """Where a function is found again, and the values it needs."""

    directory: str
    module: str
    qualified_name: str
    first_line: int
    defaults: tuple[Any, ...] | None
    closure: dict[str, Any]

    def resolve(self) -> Callable[..., Any]:
        if self.directory not in sys.path:
            sys.path.insert(0, self.directory)
        target: Any = importlib.import_module(self.module)
        module = target
        names = self.qualified_name.split(".")
        for position, name in enumerate(names):
            if name == LOCALS:
                return self._nested(module, inspect.unwrap(target).__code__, names[position + 1 :])
            target = getattr(target, name)
        function: Callable[..., Any] = target
        return function

    def _nested(self, module: Any, code: CodeType, names: list[str]) -> Callable[..., Any]:
        for name in names:
            if name != LOCALS:
                code = self._constant_named(code, name, last=name is names[-1])
        cells = tuple(CellType(self.closure[name]) for name in code.co_freevars)
        return FunctionType(code, module.__dict__, code.co_name, self.defaults, cells)

    def _constant_named(self, code: CodeType, name: str, last: bool) -> CodeType:
        found = [item for item in code.co_consts if isinstance(item, CodeType) and item.co_name == name]
        if last:
            found = [item for item in found if item.co_firstlineno == self.first_line]
        if len(found) != 1:
            raise LookupError(f"{len(found)} functions named {name!r} in {self.module}.{self.qualified_name}")
        return found[0]


def name_of(function: Callable[..., Any]) -> FunctionName:
    assert isinstance(function, FunctionType), f"{function!r} is not a plain function"
    code = function.__code__
    cells = function.__closure__ or ()
    return FunctionName(
        directory=str(Path(code.co_filename).parent),
        module=function.__module__,
        qualified_name=function.__qualname__,
        first_line=code.co_firstlineno,
        defaults=function.__defaults__,
        closure={name: cell.cell_contents for name, cell in zip(code.co_freevars, cells, strict=True)},
    )
