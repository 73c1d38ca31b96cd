"""The two places where a project can be prepared: Google Cloud, and the twin."""

import os
import sys
from pathlib import Path

from infra.bootstrap.settings import Project
from scripts.backend.twin_cloud import twin_cloud
from scripts.bootstrap.state import Surroundings
from scripts.shared import google_clients
from scripts.shared.google_cloud import Cloud
from scripts.shared.tool_setup import ensure_tools
from scripts.shared.twin_daemon import start_daemon
from twin.host.paths import REPOSITORY, TwinPaths
from twin.providers.gcp.effects import gcs
from twin.pulumi.environment import pulumi_environment
from twin.toolchain import tool

Place = tuple[Cloud, Surroundings]


def in_google_cloud(project: Project) -> Place:
    """Return the real project, with the application default credentials.

    Raises:
        scripts.shared.google_cloud.CloudError: There are no credentials.
        twin.toolchain.ToolError: The Pulumi CLI is not available.
    """
    cloud = google_clients.connect(project.id)
    ensure_tools("engine")
    folder = REPOSITORY / "build" / "bootstrap" / project.id
    environment = {
        "PATH": os.pathsep.join([str(_language_host(folder)), os.environ.get("PATH", "")]),
        # the twin's environment in a shell would point the engine to the twin
        "PULUMI_DEBUG_PROVIDERS": "",
        "STORAGE_EMULATOR_HOST": "",
    }
    return cloud, Surroundings(tool("pulumi"), environment, folder)


def _language_host(folder: Path) -> Path:
    """Return a folder with the language host that the engine requires for adopting resources."""
    programs = folder / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    host = programs / "pulumi-language-python"
    host.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m twin.pulumi.language_host \"$@\"\n")
    host.chmod(0o755)
    return programs


def on_twin(project: Project, paths: TwinPaths) -> Place:
    """Return the project of the same name on a twin; start the twin if needed.

    Raises:
        twin.host.processes.ProcessError: The twin did not start.
        twin.toolchain.ToolError: A tool is not available.
    """
    ensure_tools("engine")
    environment = {
        **pulumi_environment(paths, start_daemon(paths)),
        "GOOGLE_OAUTH_ACCESS_TOKEN": "twin",  # required before it opens a bucket
        "STORAGE_EMULATOR_HOST": gcs.url(paths).removeprefix("http://"),  # in the engine's format
    }
    cloud = twin_cloud(project.id, project.number, paths)
    folder = paths.root / "bootstrap" / project.id
    return cloud, Surroundings(tool("pulumi"), environment, folder)
