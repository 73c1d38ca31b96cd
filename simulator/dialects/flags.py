"""Command lines of the other servers, parsed and rejected like their own parsers do.

The flags are those in the catalog, which lists each release's.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from gke_inference.catalogue import engine_flags

_TYPES: dict[str, Any] = {"integer": int, "number": float}
_NO_DIGIT = "invalid digit found in string"
_LARGEST_PORT = 2**16 - 1
_LARGEST_USIZE = 2**64 - 1
_COUNTS = {"*": ("lora-paths", "lora-target-modules")}
_HELP = "For more information, try '--help'.\n"


class _Clap(argparse.ArgumentParser):
    """argparse with the messages of clap, as a Rust server prints them."""

    def error(self, message: str) -> NoReturn:
        """Print the message as clap does and exit with status 2."""
        unknown = message.partition("unrecognized arguments: ")[2].split(" ")[0]
        said = f"unexpected argument '{unknown.partition('=')[0]}' found" if unknown else message
        self.exit(2, f"error: {said}\n\nUsage: {self.prog} [OPTIONS]\n\n{_HELP}")


@dataclass(frozen=True)
class CommandLine:
    """The command line of a server that reads it with argparse."""

    engine: str
    """Name of the server in the catalog."""
    program: str
    """Name of the program in messages."""

    def parse(self, argv: Sequence[str], **required: bool) -> argparse.Namespace:
        """Read the arguments of the server.

        Args:
            argv: arguments of the program.
            required: required flags, with underscores.

        Raises:
            SystemExit: status 2 with the parser's message on standard error, as for an unknown
                flag.
        """
        parser = self._parser()
        for flag in engine_flags.flags(self.engine).values():
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
            sys.stdout.write(f"usage: {self.program}\n")
            parser.exit(0)
        return namespace

    def whole(self, flag: str, value: str | int | None, default: int) -> int:
        """Return a flag's value as an integer.

        Raises:
            SystemExit: status 2 with the parser's message, where it is none.
        """
        if value is None:
            return default
        try:
            return int(value)
        except ValueError:
            raise self._refused(f"argument --{flag}: invalid int value: '{value}'") from None

    def share(self, flag: str, value: str | float | None, default: float) -> float:
        """Return a flag's value as a number.

        Raises:
            SystemExit: status 2 with the parser's message, where it is none.
        """
        if value is None:
            return default
        try:
            return float(str(value).replace("_", "?"))  # Python reads 1_0, Rust does not
        except ValueError:
            raise self._refused(self._no_float(flag, str(value))) from None

    def _parser(self) -> argparse.ArgumentParser:
        return argparse.ArgumentParser(prog=self.program, add_help=False)

    def _no_float(self, flag: str, value: str) -> str:
        return f"argument --{flag}: invalid float value: '{value}'"

    def _refused(self, said: str) -> SystemExit:
        """Print the parser's error, and return the exit."""
        sys.stderr.write(f"{self.program}: error: {said}\n")
        return SystemExit(2)


class ClapCommandLine(CommandLine):
    """The command line of a server in Rust that reads it with clap."""

    def whole(self, flag: str, value: str | int | None, default: int) -> int:
        """Return a flag's value as `usize`, or as `u16` for a port.

        Raises:
            SystemExit: status 2 with the parser's message, where it is none.
        """
        if value is None:
            return default
        text, is_port = str(value), flag == "port"
        if not re.fullmatch(r"[+-]?[0-9]+" if is_port else r"\+?[0-9]+", text):
            empty = "cannot parse integer from empty string"
            raise self._refused(_of_clap(flag, text, _NO_DIGIT if text else empty))
        number = int(text)
        if is_port and not 0 <= number <= _LARGEST_PORT:
            raise self._refused(_of_clap(flag, text, f"{number} is not in 0..={_LARGEST_PORT}"))
        if number > _LARGEST_USIZE:
            said = "number too large to fit in target type"
            raise self._refused(_of_clap(flag, text, said))
        return number

    def _parser(self) -> argparse.ArgumentParser:
        return _Clap(prog=self.program, add_help=False, allow_abbrev=False)

    def _no_float(self, flag: str, value: str) -> str:
        return _of_clap(flag, value, "invalid float literal")

    def _refused(self, said: str) -> SystemExit:
        sys.stderr.write(f"error: {said}\n\n{_HELP}")
        return SystemExit(2)


def _of_clap(flag: str, value: str, problem: str) -> str:
    name = flag.upper().replace("-", "_")
    return f"invalid value '{value}' for '--{flag} <{name}>': {problem}"
