"""vLLM's command line: the flags, types and messages of the real one.

The catalog of the components has the table of vLLM's own argument definitions. A flag that vLLM
would reject is rejected here, with the message of argparse and exit status 2.
"""

import argparse
import functools
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from gke_inference.catalogue import engine_flags
from twin.engines import vllm_values

DATA = Path(__file__).with_name("data")
RAY_PORT = 6379
"""Port of a Ray cluster's head, where workers join."""
DATA_PARALLEL_PORT = 29550
"""Default of `--data-parallel-rpc-port`."""
MASTER_PORT = 29501
"""Default of `--master-port`."""
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def flag_table() -> dict[str, Any]:
    """Return the version of vLLM and its flags: name to type, choices and aliases."""
    return engine_flags.document("vllm")


def version() -> str:
    """Return the version of vLLM with these flags and metrics."""
    return str(flag_table()["version"])


def human_readable_int(value: str) -> int:
    """Read `1k` as 1,000, `1K` as 1,024 and `25.6k` as 25,600, as vLLM does."""
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        return int(value)
    number, suffix = match.groups()
    if suffix in _DECIMAL:
        return int(float(number) * _DECIMAL[suffix])
    if "." in number:
        raise argparse.ArgumentTypeError(
            f"Decimals are not allowed with binary suffixes like {suffix}. "
            f"Did you mean to use {number}{suffix.lower()} instead?"
        )
    return int(number) * _BINARY[suffix]


def human_readable_int_or_auto(value: str) -> int:
    """Read a size; `auto` and `-1` mean the largest that fits."""
    return -1 if value.strip().lower() in {"-1", "auto"} else human_readable_int(value)


def _json(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"Value {value} cannot be converted to json") from error


_TYPES: dict[str, Any] = {
    "integer": int,
    "json": _json,
    "number": float,
    "size": human_readable_int,
    "size-or-auto": human_readable_int_or_auto,
    "string": str,
}


class VllmParser(argparse.ArgumentParser):
    """argparse with vLLM's habits: underscores for dashes, dotted JSON keys, one error line."""

    def error(self, message: str) -> NoReturn:
        """Print the message as vLLM prints it and exit with status 2."""
        self.exit(2, f"usage: {self.prog} [model_tag] [options]\n{self.prog}: error: {message}\n")


def _add(parser: argparse.ArgumentParser, name: str, entry: dict[str, Any]) -> None:
    kind = entry["type"]
    names = [name, *entry.get("aliases", [])]
    options: dict[str, Any] = {"default": None}
    if kind == "boolean":
        options["action"] = argparse.BooleanOptionalAction
    elif kind == "switch":
        options |= {"action": "store_true", "default": False}
    elif kind == "append":
        options |= {"action": "append"}
    elif kind == "flag-or-string":
        options |= {"nargs": "?", "const": True}
    elif kind == "list":
        options |= {"nargs": "+", "type": _TYPES[entry["items"]]}
    else:
        options["type"] = _TYPES[kind]
    if "choices" in entry:
        options["choices"] = entry["choices"]
    parser.add_argument(*names, **options)


@functools.cache
def _parser() -> VllmParser:
    """Return the parser of `vllm serve` with its hundreds of flags."""
    parser = VllmParser(prog="vllm serve", add_help=False, allow_abbrev=False)
    parser.add_argument("model_tag", nargs="?", default=None)
    parser.add_argument("-h", "--help", action="store_true", default=False)
    for name, entry in flag_table()["flags"].items():
        _add(parser, name, entry)
    return parser


def normalise(argv: Sequence[str]) -> list[str]:
    """Rewrite arguments as vLLM's parser does: `--max_model_len`, `-O3`, `--kv-transfer-config.x`.

    Dotted keys of one JSON flag are collected into one value.
    """
    out: list[str] = []
    nested: dict[str, dict[str, Any]] = {}
    rest = iter(argv)
    for argument in rest:
        if re.fullmatch(r"-O\d", argument):
            out += ["--optimization-level", argument[2:]]
            continue
        if not argument.startswith("--"):
            out.append(argument)
            continue
        key, equals, value = argument.partition("=")
        flag, dot, path = key.partition(".")
        flag = flag.replace("_", "-")
        if dot:
            text = value if equals else next(rest, "")
            _set_nested(nested.setdefault(flag, {}), path.split("."), text)
        else:
            out.append(flag + equals + value)
    for flag, value in nested.items():
        out += [flag, json.dumps(value)]
    return out


def _set_nested(target: dict[str, Any], path: list[str], text: str) -> None:
    for part in path[:-1]:
        target = target.setdefault(part, {})
    try:
        target[path[-1]] = json.loads(text)
    except ValueError:
        target[path[-1]] = text


def parse(argv: Sequence[str], release: str | None = None) -> argparse.Namespace:
    """Read the arguments of `vllm serve` or of vLLM's API server module.

    Args:
        argv: `serve MODEL [flags]`, `MODEL [flags]` or `--model MODEL [flags]`.
        release: Release of vLLM. Default: that of the table.

    Raises:
        SystemExit: status 2 with vLLM's message on standard error, as for an unknown flag; status 1
            for a value that vLLM refuses after its parser.
    """
    arguments = list(argv)
    if arguments[:1] == ["serve"]:
        arguments = arguments[1:]
    parser = _parser()
    words = normalise(arguments)
    lacks = flag_table()["other_releases"].get(release, {}).get("lacks", ())
    if unknown := [word for word in words if word.partition("=")[0] in lacks]:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    namespace = parser.parse_args(words)
    if namespace.help:
        sys.stdout.write("usage: vllm serve [model_tag] [options]\n")
        parser.exit(0)
    if namespace.model_tag is not None:
        namespace.model = namespace.model_tag
    if namespace.enable_auto_tool_choice and not namespace.tool_call_parser:
        raise SystemExit("TypeError: Error: --enable-auto-tool-choice requires --tool-call-parser")
    vllm_values.check(namespace, release or version())
    return namespace
