"""The contents of the platform's images, read from data/image_contents.yaml.

A container whose command names a program that its image does not have never starts: the runtime
ends it with 128, or a shell with 127.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gke_inference.catalogue.data_file import read_table
from gke_inference.catalogue.versions import builds, images, lock

_FILE = Path(__file__).parent / "data" / "image_contents.yaml"
_SHELLS = ("sh", "bash", "/bin/sh", "/bin/bash")
_FOLDERS = ("/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/")
_BUILTINS = frozenset(
    (
        ".", ":", "[", "[[", "break", "cd", "command", "continue", "echo", "eval", "exec", "exit",
        "export", "false", "kill", "local", "printf", "pwd", "read", "return", "set", "shift",
        "test", "trap", "true", "type", "ulimit", "umask", "unset", "wait",
    )
)  # fmt: skip
_KEYWORDS = frozenset(["!", "(", "{", "do", "elif", "else", "if", "then", "until", "while", "}"])
_ENDS = frozenset(["done", "esac", "fi", ")"])
_NAMES = frozenset(["case", "for", "in", "function", "select"])
"""Words that no program follows."""


@dataclass(frozen=True)
class Contents:
    """What an image contains."""

    entrypoint: tuple[str, ...]
    """Program and words that run without a command; empty if there is none."""
    programs: frozenset[str]
    """Programs on PATH by name, others by path."""
    modules: frozenset[str]
    """Python packages that `python3 -m` is used with."""
    user: str
    """Numeric user and group, `UID:GID`; empty if not known."""
    writes: tuple[str, ...]
    """Folders that the entry point writes to."""

    def has(self, program: str) -> bool:
        """Return whether a program is on PATH, or at its path."""
        if program in self.programs:
            return True
        folder = next((each for each in _FOLDERS if program.startswith(each)), None)
        return folder is not None and program.removeprefix(folder) in self.programs


@cache
def _table() -> Mapping[str, Any]:
    return read_table(_FILE)


@cache
def contents() -> dict[str, Contents]:
    """Return the contents of each image, by its entry in the lock or the folder of its build."""
    return {
        name: _contents(entry)
        for kind in ("images", "builds")
        for name, entry in _table()[kind].items()
    }


def _contents(entry: Mapping[str, Any]) -> Contents:
    return Contents(
        entrypoint=tuple(entry["entrypoint"]),
        programs=frozenset([*_table()["systems"][entry["system"]], *entry["own"]]),
        modules=frozenset(entry.get("modules", ())),
        user=entry["user"],
        writes=tuple(entry.get("writes", ())),
    )


def contents_of(reference: str) -> Contents | None:
    """Return the contents of an image by its reference; None if the lock does not have it."""
    return contents().get(_name_of(reference))


def has_engine(reference: str) -> bool:
    """Return whether an image of the lock, or the build that stands for it, has an engine."""
    engines = {str(entry["image"]) for entry in lock()["engines"].values()}
    ours = {build.target for name, build in builds().items() if name in engines}
    return _name_of(reference) in engines | ours


def _name_of(reference: str) -> str:
    """Return the entry in the lock or the target of a build; empty if the lock has neither.

    The name decides, so that a mirror, another tag or a digest is the same image.
    """
    path = reference.partition("@")[0]
    name = path.rpartition(":")[0] if ":" in path.rpartition("/")[2] else path
    exact = {image.repository: entry for entry, image in images().items()}
    if name in exact and exact[name] in contents():
        return exact[name]
    last = name.rpartition("/")[2]
    if last in {build.target for build in builds().values()}:
        return last
    return {image.short_name: entry for entry, image in images().items()}.get(last, "")


@dataclass(frozen=True)
class Missing:
    """A program that a container's image does not have."""

    program: str
    is_of_shell: bool
    """Whether a shell looks for it, which ends with 127; otherwise the container never starts."""

    @property
    def message(self) -> str:
        """What containerd or bash reports."""
        if self.is_of_shell:
            return f"bash: {self.program}: command not found"
        if self.program.startswith("/"):
            return (
                f'exec: "{self.program}": stat {self.program}: no such file or directory: unknown'
            )
        return f'exec: "{self.program}": executable file not found in $PATH: unknown'


def missing_program(
    found: Contents, command: Sequence[str], args: Sequence[str], mounts: Sequence[str] = ()
) -> Missing | None:
    """Return the first program of a container that its image does not have; None if it has all.

    Args:
        found: Contents of the image.
        command: Command of the container; empty for the entry point.
        args: Arguments of the container.
        mounts: Folders of its volumes, which can have programs.
    """
    line = [*(command or found.entrypoint), *args]
    if not line:
        return Missing("", is_of_shell=False)
    for program, is_of_shell in _programs(line):
        if not found.has(program) and not any(
            program.startswith(f"{folder.rstrip('/')}/") for folder in mounts
        ):
            return Missing(program, is_of_shell)
    return None


def _programs(line: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield the programs of a command line, and whether a shell looks for them."""
    yield line[0], False
    if line[0] in _SHELLS and len(line) > 2 and re.fullmatch(r"-[a-z]*c", line[1]):
        for program in shell_programs(line[2]):
            yield program, True
    if "--" in line:  # the launcher starts the engine's command as a process of its own
        rest = line[line.index("--") + 1 :]
        if rest and "engine" in line:
            yield rest[0], False


def shell_programs(script: str) -> list[str]:
    """Return the programs that a script starts, in order; builtins and variables are left out."""
    text = re.sub(r"<<-?\s*['\"]?(\w+)['\"]?\n.*?\n\1(?=\n|$)", "", script, flags=re.S)
    text = re.sub(r"\\\n", " ", text)
    inner = [found for found in re.findall(r"\$\(([^()]*)\)", text) if not found.startswith("(")]
    plain = re.sub(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", "Q", re.sub(r"\$\(\(.*?\)\)", "Q", text))
    plain = re.sub(r"\$\([^()]*\)|\$\{[^}]*\}", "Q", plain)
    plain = re.sub(r"(^|\s)#[^\n]*", " ", plain)
    plain = re.sub(r"\d*(>>?|<)(&\d|&-|\s*\S+)", " ", plain)
    found: list[str] = []
    for part in [*re.split(r"\n|;|&&|\|\||\||&", plain), *inner]:
        program = _first(part.split())
        if program is not None:
            found.append(program)
    return list(dict.fromkeys(found))


def _first(words: Sequence[str]) -> str | None:
    """Return the program of a simple command; None if a builtin or a variable stands there."""
    rest = [*words]
    while rest and (rest[0] in _KEYWORDS or re.match(r"\w+=", rest[0]) or rest[0] == "exec"):
        rest.pop(0)
    if not rest or rest[0] in (_ENDS | _NAMES) or rest[0] in _BUILTINS:
        return None
    return rest[0] if re.fullmatch(r"[\w./+-]+", rest[0]) and rest[0] != "Q" else None
