"""Command lines of the other servers, read and refused as their own parsers do.

The flags are those of the catalogue, which lists each release's.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from gke_inference.catalogue import engine_flags

_TYPES: dict[str, Any] = {"integer": int, "number": float}
_COUNTS = {"*": ("lora-paths", "lora-target-modules")}


class _Argparse(argparse.ArgumentParser):
    """argparse, as the servers in Python use it."""


class _Clap(argparse.ArgumentParser):
    """clap's words for what argparse finds, as a server in Rust prints them."""

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
        engine: whose flags these are, as the catalogue names it.
        prog: the program in its messages.
        argv: its arguments.
        required: flags that must be there, with underscores.

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


def whole(engine: str, flag: str, value: str | None, default: int) -> int:
    """Return a flag's value as a whole number.

    Raises:
        SystemExit: status 2, where it is none.
    """
    if value is None:
        return default
    try:
        return int(value)
    except ValueError:
        said = f"argument --{flag}: invalid int value: '{value}'"
        if engine == "tgi":
            said = f"invalid value '{value}' for '--{flag}': invalid digit found in string"
        sys.stderr.write(f"error: {said}\n")
        raise SystemExit(2) from None
