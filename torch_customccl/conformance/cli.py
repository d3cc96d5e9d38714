"""The command line."""

from __future__ import annotations

import argparse
import importlib.util
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist
from rich.console import Console

from . import contract, registry
from .expected import BadExpectationsError
from .model import Tier
from .plan import Selection
from .profiles import PROFILES
from .report import compare, matrix, result, writer
from .report.portable import portable
from .runner import Limits
from .session import OFFICIAL_RUNS, Request, chosen_cases, run

USAGE, HARNESS, INTERRUPTED = 2, 3, 130


def main(argv: list[str] | None = None) -> int:
    """Run a command; gives the exit code: 0 met, 1 red, 2 usage, 3 the kit failed, 4 nothing ran, 130 Ctrl-C."""
    words = list(sys.argv[1:] if argv is None else argv)
    console = Console(stderr=True)
    try:
        if words and words[0] in _COMMAND_FUNCTIONS:
            return _COMMAND_FUNCTIONS[words[0]](words[1:], console)
        return _run(words, console)
    except ChildProcessError as error:
        console.print(f"conformance: {error}", style="red", markup=False, soft_wrap=True)
        return HARNESS
    except KeyboardInterrupt:  # before or after what _stopped_by_signals covers
        return INTERRUPTED
    except (BadExpectationsError, ValueError, OSError) as error:
        console.print(f"conformance: {error}", style="red", markup=False, soft_wrap=True)
        return USAGE


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h)?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration: write 90, 90s, 5m or 1h")
    return float(match.group(1)) * {"s": 1, "m": 60, "h": 3600}[match.group(2) or "s"]


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r}: write NAME=VALUE")
    return name, value


def count(text: str) -> int:
    """How often: 1 or more."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not 1 or more")
    return int(text)


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(count(number) for number in text.split(","))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m torch_customccl.conformance",
        description="Judge a torch.distributed backend. Other commands: " + ", ".join(_COMMAND_FUNCTIONS) + ".",
    )
    add = parser.add_argument
    add("--backend", help="name as given to init_process_group")
    add("--import", dest="imports", action="append", default=[], metavar="PKG", help="module that registers it")
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--tier", choices=[tier.value for tier in Tier], default=Tier.STANDARD.value)
    add("--profile", default="", help=f"comma-separated: {', '.join(PROFILES)}")
    add("--case", dest="cases", action="append", default=[], metavar="ID", help="case id or pattern; may be repeated")
    add("--repeat", type=count, default=1, help="run everything so many times; a changing verdict is flaky")
    add("--world-sizes", type=_sizes, default=(), metavar="N,N", help="only cases of these world sizes")
    add("--list", action="store_true", help="print the chosen cases and stop")
    add("--explain", metavar="CLAUSE", help="print a clause and its cases and stop")
    add("--expected", type=Path, metavar="FILE", help="known findings (TOML or JSON)")
    add("--budget", type=_seconds, help="stop after this long, e.g. 5m")
    add("--out", type=Path, default=Path("conformance-report"), metavar="DIR")
    add("--seed", type=int, default=1, help="order of the cases")
    add("--env", type=_pair, action="append", default=[], metavar="K=V", help="environment of the ranks")
    add("--pg-options", default="", metavar="MODULE:FUNCTION", help="makes the pg_options of each rank")
    add("--launcher", default="", metavar="CMD", help='starts the ranks of a set, e.g. "mpirun -np {n} {cmd}"')
    add("--lanes", type=count, default=3, help="worker sets that run side by side")
    add("--selftest-score", type=Path, metavar="FILE", help="score written by selftest --out, shown in the reports")
    add("--official", action="store_true", help="three runs, no filter, every finding confirmed; a zip of all")
    return parser


def _check_names(args: argparse.Namespace) -> None:
    """What is misspelt is the caller's mistake, and shall not be held against the backend."""
    for module in (*args.imports, *([args.pg_options.partition(":")[0]] if args.pg_options else [])):
        try:  # the package only: to look for a module within it would import the package here
            there = importlib.util.find_spec(module.partition(".")[0]) is not None
        except (ImportError, ValueError):
            there = False
        if not there:
            raise ValueError(f"there is no module {module!r} for {sys.executable} to import")
    if args.device == "cuda" and torch.cuda.device_count() == 0:
        raise ValueError("--device cuda: torch finds no CUDA device here")
    if args.pg_options and not args.pg_options.partition(":")[2]:
        raise ValueError(f"--pg-options {args.pg_options!r}: write MODULE:FUNCTION")
    names = [part.rpartition(":")[2] for part in (args.backend or "").split(",")]
    unknown = [name for name in names if name and name.lower() not in dist.Backend.backend_list]
    if unknown and not args.imports:
        raise ValueError(f"no backend is named {unknown[0]!r} here; --import names the module that registers it")


def _request(args: argparse.Namespace) -> Request:
    profiles = tuple(args.profile.split(",")) if args.profile else ()
    for name in profiles:
        if name not in PROFILES:
            raise ValueError(f"no profile named {name!r}; there are {', '.join(PROFILES)}")
    selection = Selection(Tier(args.tier), tuple(args.cases), profiles, args.world_sizes, args.device)
    if args.official and (selection.filtered or args.expected or args.launcher or selection.tier is Tier.SMOKE):
        raise ValueError("--official allows no filter, expectations file or launcher, and no tier below standard")
    return Request(
        args.backend,
        tuple(args.imports),
        selection,
        Limits(lanes=args.lanes),
        args.budget,
        args.seed,
        dict(args.env),
        args.pg_options,
        args.expected,
        args.official,
        max(args.repeat, OFFICIAL_RUNS) if args.official else args.repeat,
        args.launcher,
    )


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM, however often, only end the run; the report of what had run is still written."""
    stop = threading.Event()
    heeded = [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) is not signal.SIG_IGN]

    told: list[int] = []

    def tell(number: int, frame: object) -> None:
        if not told:  # a signal within set() would wait for itself
            told.append(number)
            stop.set()

    before = [signal.signal(each, tell) for each in heeded]
    try:
        yield stop
    finally:
        for each, handler in zip(heeded, before, strict=True):
            signal.signal(each, handler)


def _run(words: list[str], console: Console) -> int:
    parser = _parser()
    args = parser.parse_args(words)
    if args.explain:
        return _explain(args.explain)
    if not args.backend and not args.list:
        parser.error("--backend is needed")
    request = _request(args)
    if args.list:
        for case in chosen_cases(request):
            print(f"{case.id}  {case.clause}  {case.tier.value}")
        return 0
    if not chosen_cases(request):
        console.print("conformance: the filters leave no case", style="red")
        return USAGE
    _check_names(args)
    score = result.load_score(args.selftest_score) if args.selftest_score else None
    writer.check_writable(args.out)
    with _stopped_by_signals() as stop:
        made = run(request, console, stop)
        if score is not None:
            made["mutation_score"] = score
        try:
            writer.write_all(made, args.out, packed=args.official)
        except OSError as error:  # a full disk; what was found is told all the same
            writer.print_summary(made, None, Console())
            raise ChildProcessError(f"the reports in {args.out} are not all there: {error}") from error
        writer.print_summary(made, args.out, Console())
    return INTERRUPTED if "interrupted" in made["suite"]["unofficial_because"] else result.exit_code(made)


def _explain(clause_id: str) -> int:
    clause = contract.CLAUSES.get(clause_id)
    if clause is None:
        raise ValueError(f"no clause {clause_id!r}; see: python -m torch_customccl.conformance contract")
    print(f"{clause.id} {clause.level.value}\n{clause.text}\nSource: {clause.source}\n")
    for case in registry.all_cases():
        if case.clause == clause_id:
            print(f"  {case.id}  ({case.tier.value})")
    return 0


def _compare(words: list[str], console: Console) -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_customccl.conformance compare")
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument(
        "--force", action="store_true", help="other suite versions, tiers or filters; cases may be gone"
    )
    args = parser.parse_args(words)
    difference = compare.compare(result.load(args.before), result.load(args.after), args.force)
    print(compare.as_text(difference))
    return 1 if difference.regressions else 0


def _matrix(words: list[str], console: Console) -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_customccl.conformance matrix")
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, help="write here instead of printing")
    parser.add_argument("--html", type=Path, help="also one page with a column per result")
    parser.add_argument("--check", action="store_true", help="exit 1 if --out differs from what would be written")
    parser.add_argument("--against", type=Path, metavar="RUN", help="with --check: also if this new run says otherwise")
    args = parser.parse_args(words)
    loaded = [result.load(path) for path in args.results]
    page = matrix.as_markdown(loaded)
    if args.html:
        writer.write_html(loaded, args.html)
    if args.check:
        return _stale(args, page, loaded)
    if args.out:
        args.out.write_text(page, encoding="utf-8")
    else:
        print(page)
    return 0


def _stale(args: argparse.Namespace, page: str, kept: list[result.Result]) -> int:
    lines = matrix.stale(kept, result.load(args.against)) if args.against else []
    if args.out and args.out.read_text(encoding="utf-8") != page:
        lines.append(f"{args.out} is not what these results give; write it again")
    for line in lines:
        print(line)
    return 1 if lines else 0


def _contract(words: list[str], console: Console) -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_customccl.conformance contract")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(words)
    if args.out:
        args.out.write_text(contract.as_markdown(), encoding="utf-8")
    else:
        print(contract.as_markdown())
    return 0


def _pack(words: list[str], console: Console) -> int:
    """Keep a result in the repository: the same content, packed, same bytes for the same result."""
    parser = argparse.ArgumentParser(prog="python -m torch_customccl.conformance pack")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path, help="a name that ends in .json.gz")
    parser.add_argument("--selftest-score", type=Path, metavar="FILE", help="score written by selftest --out")
    args = parser.parse_args(words)
    if not args.target.name.endswith(".json.gz"):
        raise ValueError(f"{args.target}: the name must end in .json.gz")
    packed = portable(result.load(args.source))
    if args.selftest_score:
        packed["mutation_score"] = result.load_score(args.selftest_score)
    result.save(packed, args.target)
    return 0


def _selftest(words: list[str], console: Console) -> int:
    from .selftest import main as selftest_main

    return selftest_main(words, console)


_COMMAND_FUNCTIONS = {
    "compare": _compare,
    "matrix": _matrix,
    "contract": _contract,
    "selftest": _selftest,
    "pack": _pack,
}
