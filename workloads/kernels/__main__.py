"""`python -m kernels`, with the interpreter that has JAX: tune, check, report."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any


def main(argv: list[str] | None = None) -> int:
    """Run a subcommand; what it finds goes to standard output, as JSON."""
    arguments = _arguments().parse_args(argv)
    if not getattr(arguments, "measure", False):
        # said before JAX is imported: it would look for accelerators for minutes
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
    try:
        answer = {"tune": _tune, "check": _check, "report": _report}[arguments.command](arguments)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 2
    print(json.dumps(answer, indent=1))  # noqa: T201
    return 0


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m kernels", description=__doc__)
    parts = parser.add_subparsers(dest="command", required=True)
    tune = parts.add_parser("tune", help="write the table's entries of some shapes")
    tune.add_argument("--chip", required=True)
    tune.add_argument("--shape", action="append", default=[], help="name; default: all of them")
    tune.add_argument("--measure", action="store_true", help="time the best on this device")
    tune.add_argument("--tables", type=Path, default=None)
    tune.add_argument("--cache", type=Path, default=None)
    check = parts.add_parser("check", help="compile the calls that standard input lists")
    check.add_argument("--cache", type=Path, default=None)
    report = parts.add_parser("report", help="compile every choice and say what the compiler says")
    report.add_argument("--chip", default="v6e")
    report.add_argument("--cache", type=Path, default=None)
    return parser


def _tune(arguments: argparse.Namespace) -> object:
    from . import measure, tables, tuner  # noqa: PLC0415 - JAX comes with them
    from .candidates import SHAPES  # noqa: PLC0415

    folder = arguments.tables or tables.FOLDER
    sizes = tuner.CodeSizes(arguments.cache)
    written: list[object] = []
    chip = measure.check_device(arguments.chip) if arguments.measure else ""
    for name in arguments.shape or SHAPES:
        if name not in SHAPES:
            raise ValueError(f"--shape: must be one of {', '.join(SHAPES)}, got {name!r}")
        _say(f"{name} on {arguments.chip}: {SHAPES[name]}")
        entry = tuner.tune(
            name, SHAPES[name], arguments.chip, sizes, lambda line: _say("  " + line)
        )
        if arguments.measure:
            tried = tuner.try_all(SHAPES[name], arguments.chip, sizes)
            entry = measure.measured(entry, tried, chip)
        tables.put(arguments.chip, entry, folder)
        written.append(
            {"name": name, "blocks": str(entry.blocks), "estimate_ms": entry.estimate_ms}
        )
    return written


def _check(arguments: argparse.Namespace) -> object:
    """Compile each call of a JSON list; an answer is kept under all that it depends on."""
    from . import compiler  # noqa: PLC0415 - JAX comes with it

    cache: Path | None = arguments.cache
    known = json.loads(cache.read_text()) if cache is not None and cache.exists() else {}
    answers: list[object] = []
    for call in json.load(sys.stdin):
        key = f"{' '.join(compiler.versions())} {json.dumps(call, sort_keys=True)}"
        if key not in known:
            try:
                known[key] = {"code_bytes": _compile(call), "refusal": ""}
            except ValueError as error:  # also what the compiler refuses
                known[key] = {"code_bytes": None, "refusal": str(error)}
        answers.append(known[key])
    if cache is not None:
        cache.parent.mkdir(parents=True, exist_ok=True)
        cache.write_text(json.dumps(known, indent=1))
    return answers


def _compile(call: dict[str, Any]) -> int:
    from . import paged, tuner  # noqa: PLC0415 - JAX comes with them
    from .shapes import AttentionShape, Blocks  # noqa: PLC0415

    if call["kernel"] == "paged":
        numbers = ("heads", "kv_heads", "head_size", "context")
        return paged.compile_paged(call["generation"], **{name: call[name] for name in numbers})
    shape, blocks = AttentionShape(**call["shape"]), Blocks(**call["blocks"])
    return tuner.compile_at(shape, blocks, call["generation"])


def _report(arguments: argparse.Namespace) -> object:
    from .report import report  # noqa: PLC0415 - JAX comes with it
    from .tuner import CodeSizes  # noqa: PLC0415

    return report(arguments.chip, CodeSizes(arguments.cache))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
