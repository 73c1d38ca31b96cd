"""The environment in which the Pulumi CLI works on the twin.

Everything that makes a run a twin's run is here: programs and components know nothing of it.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path

from twin.host.paths import TwinPaths
from twin.pulumi.official import OfficialPlugins
from twin.toolchain import ToolError, tool

NO_CLUSTERS = "GKE_INFERENCE_NO_CLUSTERS"
"""Variable that is set where the program makes no cluster and no network, so that the largest SDKs
need not be loaded beforehand."""


def process_environment(paths: TwinPaths) -> dict[str, str]:
    """Return what every process of the twin has in its environment."""
    inherited = paths.without_programs(os.environ.get("PATH", ""))
    return {
        "GKE_INFERENCE_TWIN_DIR": str(paths.root),
        "PYTHONDONTWRITEBYTECODE": "",  # without bytecode each run compiles the SDKs again: 4 s
        "SSL_CERT_FILE": str(paths.ca_bundle),
        "PATH": os.pathsep.join([str(paths.bin), inherited]),
    }


def pulumi_environment(
    paths: TwinPaths, ports: dict[str, int], official: OfficialPlugins | None = None
) -> dict[str, str]:
    """Return the variables with which `pulumi` runs against the twin.

    Args:
        paths: of the twin.
        ports: of the daemon's providers, by package.
        official: plugins that replace the twin's own; None attaches the twin's alone.

    Raises:
        ToolError: the CLI is not built.
    """
    cli = tool("pulumi")
    state = paths.root / "pulumi-state"
    state.mkdir(parents=True, exist_ok=True)
    programs, home = paths.bin, paths.pulumi_home
    if official is not None:
        official.link(paths)
        programs, home = paths.official / "bin", paths.official / "home"
    replaced = official.providers if official else {}
    attached = [f"{name}:{port}" for name, port in ports.items() if name not in replaced]
    return {
        **process_environment(paths),
        "PATH": _search_path(paths, programs, cli.parent),
        # Without the sidecar of attributes, which the engine rewrites in place: one killed in the
        # middle leaves it empty, and then cannot read its own state.
        "PULUMI_BACKEND_URL": f"file://{state}?metadata=skip",
        "PULUMI_CONFIG_PASSPHRASE": "",
        "PULUMI_DEBUG_LANGUAGES": "",
        "PULUMI_DEBUG_PROVIDERS": ",".join(attached),
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_HOME": str(home),
        # The twin's language host is the first on PATH; an official one is beside the CLI.
        "PULUMI_IGNORE_AMBIENT_PLUGINS": "true" if official else "",
        "PULUMI_SKIP_UPDATE_CHECK": "1",
        **(official.variables if official else {}),
    }


def _search_path(paths: TwinPaths, programs: Path, cli: Path) -> str:
    """Return PATH with a run's own programs first, then the twin's tools, then the user's."""
    first = [str(programs), str(cli)]
    with suppress(ToolError):  # a preview needs no control plane, and no kubectl
        first.append(str(tool("kubectl").parent))
    first.append(str(Path(sys.executable).parent))
    inherited = paths.without_programs(os.environ.get("PATH", "")).split(os.pathsep)
    return os.pathsep.join([*first, *(part for part in inherited if part not in first)])
