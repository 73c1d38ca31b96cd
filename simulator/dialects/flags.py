"""Command lines of the other servers, parsed and rejected like their own parsers do.

The flags are those in the catalog, which lists each release's.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from gke_inference.catalogue import engine_flags

_TYPES: dict[str, Any] = {"integer": int, "number": float}
_PROGRAMS = {"sglang": "launch_server.py", "triton": "main.py"}
_NO_DIGIT = "invalid digit found in string"
_LARGEST_PORT = 2**16 - 1
_LARGEST_USIZE = 2**64 - 1
_COUNTS = {"*": ("lora-paths", "lora-target-modules")}


class _Argparse(argparse.ArgumentParser):
    """argparse, as the Python servers use it."""


class _Clap(argparse.ArgumentParser):
    """argparse with the messages of clap, as a Rust server prints them."""

    def error(self, message: str) -> NoReturn:
        """Print the message as clap does and exit with status 2."""
        unknown = message.partition("unrecognized arguments: ")[2].split(" ")[0]
        said = f"unexpected argument '{unknown.partition('=')[0]}' found" if unknown else message
        self.exit(
            2,
            f"error: {said}\n\nUsage: {self.prog} [OPTIONS]\n\n"
            "For more information, try '--help'.\n",
        )


def parse(engine: str, prog: str, argv: Sequence[str], **required: bool) -> argparse.Namespace:
    """Read the arguments of a server.

    Args:
        engine: name of the server in the catalog.
        prog: name of the program in messages.
        argv: arguments of the program.
        required: required flags, with underscores.

    Raises:
        SystemExit: status 2 with the parser's message on standard error, as for an unknown flag.
    """
    kind = _Clap if engine == "tgi" else _Argparse
    parser = kind(prog=prog, add_help=False, allow_abbrev=engine != "tgi")
    for flag in engine_flags.flags(engine).values():
        names = [f"--{flag.name}", *flag.aliases]
        options: dict[str, Any] = {"default": None, "dest": flag.name.replace("-", "_")}
        if flag.type in ("switch", "boolean"):
            options |= {"action": "store_true", "default": False}
        elif flag.type == "list":
            options["nargs"] = "*" if flag.name in _COUNTS["*"] else "+"
            options["choices"] = flag.choices or None
        else:
            options["type"] = _TYPES.get(flag.type, str)
            options["choices"] = flag.choices or None
            options["required"] = required.get(options["dest"], False)
        parser.add_argument(*names, **options)
    namespace = parser.parse_args(list(argv))
    if getattr(namespace, "help", False):
        sys.stdout.write(f"usage: {prog}\n")
        parser.exit(0)
    return namespace


def whole(engine: str, flag: str, value: str | int | None, default: int) -> int:
    """Return a flag's value as an integer.

    Raises:
        SystemExit: status 2 with the parser's message, where it is none.
    """
    if value is None:
        return default
    if engine == "tgi":
        return _whole_of_rust(flag, str(value))
    try:
        return int(value)
    except ValueError:
        raise _refused(engine, f"argument --{flag}: invalid int value: '{value}'") from None


def share(engine: str, flag: str, value: str | float | None, default: float) -> float:
    """Return a flag's value as a number.

    Raises:
        SystemExit: status 2 with the parser's message, where it is none.
    """
    if value is None:
        return default
    try:
        return float(str(value).replace("_", "?"))  # Python reads 1_0, Rust does not
    except ValueError:
        said = f"argument --{flag}: invalid float value: '{value}'"
        if engine == "tgi":
            said = _of_clap(flag, str(value), "invalid float literal")
        raise _refused(engine, said) from None


def _whole_of_rust(flag: str, value: str) -> int:
    """Parse `usize`, or `u16` for a port."""
    is_port = flag == "port"
    if not re.fullmatch(r"[+-]?[0-9]+" if is_port else r"\+?[0-9]+", value):
        empty = "cannot parse integer from empty string"
        raise _refused("tgi", _of_clap(flag, value, _NO_DIGIT if value else empty))
    number = int(value)
    if is_port and not 0 <= number <= _LARGEST_PORT:
        said = f"{number} is not in 0..={_LARGEST_PORT}"
        raise _refused("tgi", _of_clap(flag, value, said))
    if number > _LARGEST_USIZE:
        said = "number too large to fit in target type"
        raise _refused("tgi", _of_clap(flag, value, said))
    return number


def _of_clap(flag: str, value: str, problem: str) -> str:
    name = flag.upper().replace("-", "_")
    return f"invalid value '{value}' for '--{flag} <{name}>': {problem}"


def _refused(engine: str, said: str) -> SystemExit:
    """Print the parser's error, and return the exit."""
    before = "error" if engine == "tgi" else f"{_PROGRAMS[engine]}: error"
    after = "\n\nFor more information, try '--help'.\n" if engine == "tgi" else "\n"
    sys.stderr.write(f"{before}: {said}{after}")
    return SystemExit(2)
