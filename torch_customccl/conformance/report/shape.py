"""Is a result file whole? What a result must have is fixed by schema.json beside this file."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

_KINDS: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}


@cache
def _schema() -> dict[str, Any]:
    return dict(json.loads(Path(__file__).with_name("schema.json").read_text()))


def wrong(value: Any, schema: dict[str, Any] | None = None, place: str = "it") -> str:
    """The first thing in which a result is not as the schema says; empty if it is.

    Only what the readers rely on is looked at: kinds, required names and listed values.
    """
    schema = _schema() if schema is None else schema
    if "$ref" in schema:
        schema = _schema()["$defs"][schema["$ref"].rpartition("/")[2]]
    if "type" in schema and not isinstance(value, _KINDS.get(schema["type"], object)):
        return f"{place} is no {schema['type']}"
    if value not in schema.get("enum", [value]):
        return f"{place} is {value!r}"
    for name in schema.get("required", ()):
        if name not in value:
            return f"{place} lacks {name!r}"
    parts = [(value[name], part, name) for name, part in schema.get("properties", {}).items() if name in value]
    parts += [
        (each, schema["items"], f"{place}[{number}]") for number, each in enumerate(value if "items" in schema else ())
    ]
    return next((found for part in parts if (found := wrong(*part))), "")


def wrong_score(value: Any) -> str:
    """The same for the score that ``selftest --out`` writes."""
    return wrong(value, _schema()["properties"]["mutation_score"]["oneOf"][1])
