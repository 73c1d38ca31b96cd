"""The environment in which the Pulumi CLI works on the twin.

Everything that makes a run a twin's run is here: programs and components know nothing of it.
"""

import json
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from twin.cluster.controlplane.processes import twin_token
from twin.host.paths import TwinPaths
from twin.toolchain import ToolError, tool

_HOST = "pulumi-language-python"
_CREDENTIALS = "gke-gcloud-auth-plugin"


def _script(file: Path, body: str) -> None:
    partial = file.with_suffix(f".{os.getpid()}.tmp")
    partial.write_text(f"#!/bin/sh\n{body}\n")
    partial.chmod(0o755)
    partial.replace(file)


def write_wrappers(paths: TwinPaths) -> None:
    """Write the programs that stand on PATH during a run.

    `gke-gcloud-auth-plugin` plays Google's credential plugin; `pulumi-language-python` runs Python
    programs where the official language host is missing.
    """
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "kind": "ExecCredential",
        "status": {"token": twin_token(paths)},
    }
    answer = paths.pki / "exec-credential.json"
    answer.write_text(json.dumps(credential))
    answer.chmod(0o600)
    _script(paths.bin / _CREDENTIALS, f"exec cat '{answer}'")
    if not official_language_host():
        _link_cli(paths)
        _script(paths.bin / _HOST, f"exec '{sys.executable}' -m twin.pulumi.language_host \"$@\"")


def _link_cli(paths: TwinPaths) -> None:
    """Put the CLI beside the language host, where the engine looks first and without a warning."""
    try:
        built = tool("pulumi")
    except ToolError:
        return  # the tools are built later
    link = paths.bin / "pulumi"
    if link.exists() and link.stat().st_size == built.stat().st_size:
        return
    link.unlink(missing_ok=True)
    try:
        os.link(built, link)
    except OSError:  # the cache is on another file system
        shutil.copy2(built, link)


def official_language_host() -> bool:
    """Say whether an official language host for Python stands beside the CLI that is used."""
    try:
        return (tool("pulumi").parent / _HOST).exists()
    except ToolError:
        return False


def official_kubernetes_provider() -> bool:
    """Say whether the official kubernetes provider is installed; it is preferred."""
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    return any((home / "plugins").glob("resource-kubernetes-v4*/pulumi-resource-kubernetes"))


def process_environment(paths: TwinPaths) -> dict[str, str]:
    """Return what every process of the twin has in its environment."""
    inherited = [
        part for part in os.environ.get("PATH", "").split(os.pathsep) if part != str(paths.bin)
    ]
    return {
        "GKE_INFERENCE_TWIN_DIR": str(paths.root),
        "PYTHONDONTWRITEBYTECODE": "",  # without bytecode each run compiles the SDKs anew: 4 s
        "SSL_CERT_FILE": str(paths.ca_bundle),
        "PATH": os.pathsep.join([str(paths.bin), *inherited]),
    }


def pulumi_environment(paths: TwinPaths, ports: dict[str, int]) -> dict[str, str]:
    """Return the variables with which `pulumi` runs against the twin.

    Args:
        paths: of the twin.
        ports: of the daemon's providers.

    Raises:
        ToolError: the CLI is not built.
    """
    state = paths.root / "pulumi-state"
    state.mkdir(parents=True, exist_ok=True)
    attached = [f"gcp:{ports['gcp']}"]
    if not official_kubernetes_provider():
        attached.append(f"kubernetes:{ports['kubernetes']}")
    environment = process_environment(paths)
    venv = Path(sys.executable).parent
    path = environment["PATH"].split(os.pathsep)
    first = [path[0], str(tool("pulumi").parent), str(venv)]
    with suppress(ToolError):  # a preview needs no control plane, and no kubectl
        first.insert(2, str(tool("kubectl").parent))
    path = [*first, *(part for part in path[1:] if part not in first)]
    return {
        **environment,
        "PATH": os.pathsep.join(path),
        # Without the sidecar of attributes, which the engine rewrites in place: one killed in the
        # middle leaves it empty, and then cannot read its own state.
        "PULUMI_BACKEND_URL": f"file://{state}?metadata=skip",
        "PULUMI_CONFIG_PASSPHRASE": "",
        "PULUMI_DEBUG_PROVIDERS": ",".join(attached),
        "PULUMI_HOME": str(paths.root / "pulumi-home"),
        "PULUMI_SKIP_UPDATE_CHECK": "1",
    }
