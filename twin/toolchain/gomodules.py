"""Folders from Go modules, downloaded and verified against go.sum without a build."""

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from twin.toolchain.gobuild import environment
from twin.toolchain.registry import Module, ToolError


def copy_shared(go: str, module: Module, target: Path) -> None:
    """Copy a module's shared folders from the sources in go.sum.

    Raises:
        ToolError: a Go module cannot be downloaded, or does not match go.sum.
    """
    folders = {source["module"] for source in module.share.values()}
    sources = {path: _download(go, module, path) for path in sorted(folders)}
    for folder, source in module.share.items():
        copied = target / folder
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(sources[source["module"]] / source["path"], copied)
        for file in [copied, *copied.rglob("*")]:
            file.chmod(file.stat().st_mode | 0o200)  # Go's module cache is read-only


def _download(go: str, module: Module, path: str) -> Path:
    version = module.version_of(path)
    argv = [go, "mod", "download", "-json", f"{path}@{version}"]
    # outside the module, so that none of its other requirements is downloaded; go.sum is verified
    # below, so the public checksum database need not be reachable
    variables = {**environment(), "GOFLAGS": "", "GOSUMDB": "off"}
    with tempfile.TemporaryDirectory() as empty:
        answer = subprocess.run(
            argv, cwd=empty, env=variables, capture_output=True, text=True, check=False
        )
    try:
        facts: dict[str, Any] = json.loads(answer.stdout)
    except ValueError:
        facts = {"Error": answer.stderr.strip()}
    if answer.returncode or "Error" in facts:
        raise ToolError(f"{path}@{version}: {facts.get('Error') or answer.stderr.strip()}")
    wanted = _sum_of(module, path, version)
    if facts.get("Sum") != wanted:
        raise ToolError(
            f"{path}@{version}: the checksum must be {wanted} "
            f"({module.folder.name}/go.sum), got {facts.get('Sum')}"
        )
    return Path(facts["Dir"])


def _sum_of(module: Module, path: str, version: str) -> str:
    pattern = rf"^{re.escape(path)} {re.escape(version)} (h1:\S+)$"
    match = re.search(pattern, (module.folder / "go.sum").read_text(), re.MULTILINE)
    if match is None:
        raise ToolError(f"{module.folder}/go.sum does not list {path} {version}")
    return match.group(1)
