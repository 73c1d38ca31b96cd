"""The environment of the Pulumi CLI on the twin.

Everything that directs a run to the twin is here; programs and components do not know about it.
"""

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from twin.host.paths import TwinPaths
from twin.host.processes import GO_SETTINGS, process_environment
from twin.pulumi.official import OfficialPlugins
from twin.toolchain import ToolError, tool

NO_CLUSTERS = "GKE_INFERENCE_NO_CLUSTERS"
"""Variable that is set if the program creates no cluster and no network, so that the largest SDKs
need not be preloaded."""


def pulumi_environment(
    paths: TwinPaths, ports: dict[str, int], official: OfficialPlugins | None = None
) -> dict[str, str]:
    """Return the environment variables of `pulumi` on the twin.

    Args:
        paths: paths of the twin.
        ports: ports of the daemon's providers, by package.
        official: plugins that replace the twin's own; None for only the twin's.

    Raises:
        ToolError: the CLI is not built.
    """
    cli = tool("pulumi")
    state = paths.root / "pulumi-state"
    state.mkdir(parents=True, exist_ok=True)
    programs, home = paths.bin, paths.pulumi_home
    if official is not None:
        programs, home = official.link(paths)
    _leave_out_log(home)
    replaced = official.providers if official else {}
    attached = [f"{name}:{port}" for name, port in ports.items() if name not in replaced]
    return {
        **process_environment(paths),
        **GO_SETTINGS,
        "GKE_INFERENCE_UNBUILT_IMAGES": "accept",  # rule agent.image.own
        "PATH": _search_path(paths, programs, cli.parent),
        # No attribute sidecar file, which the engine rewrites in place: an engine that is killed
        # while writing leaves it empty, and can then not read its own state.
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


def _leave_out_log(home: Path) -> None:
    """Put a file where the engine would make the folder of its log.

    Whatever the log level, the engine (v3.250.0, pkg/logging) compresses and encrypts each message
    and property that it could log: 12 MB and more than half of its processor time for a preview of
    `prod`. It has no setting for it, but goes on without this log if it cannot make the folder.
    """
    log = home / "logs"
    if log.is_file():
        return
    shutil.rmtree(log, ignore_errors=True)  # what the engine wrote before
    home.mkdir(parents=True, exist_ok=True)
    with suppress(IsADirectoryError):  # another engine has just made it
        log.write_text("No log is kept here; pulumi --logtostderr -v 9 prints one.\n")


def _search_path(paths: TwinPaths, programs: Path, cli: Path) -> str:
    """Return PATH with the run's programs first, then the twin's tools, then the user's."""
    first = [str(programs), str(cli)]
    with suppress(ToolError):  # a preview needs no control plane, and no kubectl
        first.append(str(tool("kubectl").parent))
    first.append(str(Path(sys.executable).parent))
    inherited = paths.without_programs(os.environ.get("PATH", "")).split(os.pathsep)
    return os.pathsep.join([*first, *(part for part in inherited if part not in first)])
