"""Turns the facts of `_info.gather()` into text for a person."""

from collections.abc import Iterable, Iterator
from typing import Any

Row = tuple[str, str]


def report(facts: dict[str, Any]) -> str:
    """Sections with aligned columns, one fact a line."""
    lines = [*_section("versions", ((key, _text(value)) for key, value in facts["versions"].items()))]
    if facts["problem"]:
        lines += ["", f"The backend cannot be used here: {facts['problem']}"]
    library = facts["library"]
    if library:
        lines += _section("build", ((key, _text(library[key])) for key in ("version", "compiler", "build_type")))
        lines += _section("processors", _processors(library))
    lines += _section("shared memory", _shared_memory(facts["shared_memory"], library))
    if library:
        lines += _section("mechanisms", ((m["name"], _mechanism(m)) for m in library["mechanisms"]))
        lines += ["", "settings (environment variables; * = set here)", *_settings(library["settings"])]
    return "\n".join(lines).lstrip("\n")


def settings_markdown(table: Iterable[dict[str, str]]) -> str:
    """docs/settings.md: what each environment variable means and its default."""
    lines = [
        "# Settings",
        "",
        "Every environment variable that customccl reads, once per process, at its first use. Made from the table in",
        "csrc/platform/settings.cpp by `python -m torch_customccl info --settings-markdown`; the values of a process",
        "are printed by `python -m torch_customccl info`. A value that is not understood is named in a warning, and so",
        "is a variable with their prefix that is none of them.",
        "",
        "| variable | default | meaning |",
        "| --- | --- | --- |",
    ]
    for row in table:
        default = f"`{row['default']}`" if row["default"] else "(empty)"
        lines.append(f"| `{row['variable']}` | {default} | {row['meaning'].replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def size(count: int) -> str:
    """Bytes as a person reads them: 1536 -> "1.5 KiB"."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"


def _section(title: str, rows: Iterable[Row]) -> list[str]:
    listed = list(rows)
    width = max((len(key) for key, _ in listed), default=0)
    return ["", title, *(f"  {key:<{width}}  {value}".rstrip() for key, value in listed)]


def _processors(library: dict[str, Any]) -> Iterator[Row]:
    yield "usable", _text(library["usable_cpus"])
    limit = library["cgroup_cpu_limit"]
    yield "cgroup limit", f"{limit:g} processors' worth of time" if limit else "none"
    yield "instruction set", _text(library["instruction_set"])
    for number, domain in enumerate(library["cache_domains"]):
        yield f"last-level cache {number}", f"processors {domain}"


def _shared_memory(memory: dict[str, Any], library: dict[str, Any] | None) -> Iterator[Row]:
    if "problem" in memory:
        yield memory["path"], memory["problem"]
    else:
        yield memory["path"], f"{size(memory['used'])} used of {size(memory['size'])}, {memory['entries']} entries"
    for key, value in (library or {}).get("arena", {}).items():
        text = size(value) if key.startswith("bytes_") else _text(value)
        yield f"arena {key.removeprefix('bytes_')}".replace("_", " "), text


def _mechanism(mechanism: dict[str, Any]) -> str:
    state = "works" if mechanism["works"] else "does not work"
    return f"{state}: {mechanism['detail']}" if mechanism["detail"] else state


def _settings(table: list[dict[str, str]]) -> Iterator[str]:
    names = max((len(row["variable"]) for row in table), default=0)
    values = max((len(row["value"]) for row in table), default=0)
    for row in table:
        mark, default = " ", ""
        if row["value"] != row["default"]:
            mark, default = "*", f" (default {row['default'] or 'empty'})"
        yield f"{mark} {row['variable']:<{names}}  {row['value']:<{values}}  {row['meaning']}{default}"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return str(value)
