"""The command line: `python -m torch_customccl info [--json | --settings-markdown]`."""

import argparse
import json
import sys

from torch_customccl import _info, _report


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code: 0, or 1 if the backend cannot be used in this environment."""
    parser = argparse.ArgumentParser(
        prog="python -m torch_customccl", description="Facts about this installation of customccl."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    info = commands.add_parser("info", help="versions, build, processors, shared memory, mechanisms, settings")
    form = info.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the same facts as JSON")
    form.add_argument("--settings-markdown", action="store_true", help="print docs/settings.md")
    chosen = parser.parse_args(arguments)

    if chosen.settings_markdown:
        try:
            sys.stdout.write(_report.settings_markdown(_info.settings()))
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return 1
        return 0
    facts = _info.gather()
    print(json.dumps(facts, indent=2) if chosen.json else _report.report(facts))
    return 1 if facts["problem"] else 0


if __name__ == "__main__":
    sys.exit(main())
