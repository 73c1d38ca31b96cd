"""The engine of a twin for many programs: each starts with the SDKs loaded."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from scripts.shared.engine import Engine
from twin.host.paths import REPOSITORY, TwinPaths
from twin.pulumi.warm_hosts import WarmHosts


class WarmEngine(Engine):
    """Runs programs in forks of a process that has loaded the SDKs; `close` ends it."""

    def __init__(self, paths: TwinPaths) -> None:
        super().__init__(paths)
        empty = paths.root / "hosts"
        empty.mkdir()
        self._hosts = WarmHosts(empty, {**os.environ, **self.environment})

    def run(
        self,
        *arguments: str,
        capture: bool = False,
        environment: Mapping[str, str] | None = None,
        project: Path = REPOSITORY,
    ) -> subprocess.CompletedProcess[str]:
        given = dict(environment or {})
        if arguments[0] not in ("preview", "up"):
            return super().run(*arguments, capture=capture, environment=given, project=project)
        with self._hosts.host({**os.environ, **self.environment, **given}) as port:
            attached = {**given, "PULUMI_DEBUG_LANGUAGES": f"python:{port}"}
            return super().run(*arguments, capture=capture, environment=attached, project=project)

    def close(self) -> None:
        """End the process and its forks."""
        self._hosts.close()
