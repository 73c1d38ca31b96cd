"""Programs that a run on the twin puts first on PATH."""

import json
import os
import shutil
import sys
from pathlib import Path

from twin.cluster.controlplane.processes import twin_token
from twin.host.paths import TwinPaths
from twin.host.private_files import write_private
from twin.toolchain import ToolError, tool

LANGUAGE_HOST = "pulumi-language-python"
_CREDENTIALS = "gke-gcloud-auth-plugin"


def write_wrappers(paths: TwinPaths) -> None:
    """Write the credential plugin, the twin's language host and a link to the CLI.

    The engine prefers the first language host on PATH to the one next to the CLI. It therefore runs
    the twin's, whatever is installed on this machine.
    """
    write_credential_plugin(paths, paths.bin)
    script = f"exec '{sys.executable}' -m twin.pulumi.language_host \"$@\""
    _write_script(paths.bin / LANGUAGE_HOST, script)
    link_cli(paths.bin)


def write_credential_plugin(paths: TwinPaths, folder: Path) -> None:
    """Write the replacement for Google's kubeconfig credential plugin."""
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "kind": "ExecCredential",
        "status": {"token": twin_token(paths)},
    }
    answer = paths.pki / "exec-credential.json"
    write_private(answer, json.dumps(credential))
    _write_script(folder / _CREDENTIALS, f"exec cat '{answer}'")


def link_cli(folder: Path) -> None:
    """Put the CLI into the folder of the language host, if the CLI is built.

    The engine warns about a language host on PATH that is not next to the CLI. A symbolic link is
    not enough, because the engine resolves it first.
    """
    try:
        cli = tool("pulumi")
    except ToolError:
        return
    link = folder / "pulumi"
    if link.exists() and _is_same(link, cli):
        return
    partial = folder / f"pulumi.{os.getpid()}.tmp"
    try:
        os.link(cli, partial)
    except OSError:  # the cache is on another file system
        shutil.copy2(cli, partial)
    partial.replace(link)


def _is_same(copy: Path, cli: Path) -> bool:
    """Return whether a file is the CLI, or a copy of it."""
    one, other = copy.stat(), cli.stat()
    return copy.samefile(cli) or (one.st_size, one.st_mtime_ns) == (
        other.st_size,
        other.st_mtime_ns,
    )


def _write_script(file: Path, body: str) -> None:
    partial = file.with_suffix(f".{os.getpid()}.tmp")
    partial.write_text(f"#!/bin/sh\n{body}\n")
    partial.chmod(0o755)
    partial.replace(file)
