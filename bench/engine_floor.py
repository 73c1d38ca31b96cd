"""The engine's floor: previews of resources and a provider that do nothing."""

import os
import shutil
import subprocess
import tempfile
import time
from concurrent import futures
from pathlib import Path
from typing import Any

from scripts.shared.engine import Engine
from scripts.terminal.console import CommandError, one_line
from twin.wire.rpc import BaseProvider, grpc_module, provider_grpc, provider_pb2

_PROGRAM = Path(__file__).with_name("floor")


class _Nothing(BaseProvider):
    """Accepts every resource and keeps none."""

    def Configure(self, request: Any, context: Any) -> Any:
        """Accept any configuration."""
        return provider_pb2.ConfigureResponse(supportsPreview=True)

    def Check(self, request: Any, context: Any) -> Any:
        """Accept any inputs."""
        return provider_pb2.CheckResponse(inputs=request.news)

    def Create(self, request: Any, context: Any) -> Any:
        """Return the inputs."""
        return provider_pb2.CreateResponse(id="", properties=request.properties)


def floor_preview_seconds(engine: Engine, resources: int, runs: int) -> list[float]:
    """Return the wall times of previews of resources that do nothing.

    Raises:
        CommandError: a preview failed.
    """
    server: Any = grpc_module.server(futures.ThreadPoolExecutor(64))
    provider_grpc.add_ResourceProviderServicer_to_server(_Nothing(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            state = Path(folder) / "state"
            state.mkdir()
            environment = {
                **os.environ,
                **engine.environment,
                "PULUMI_BACKEND_URL": f"file://{state}",
                "PULUMI_DEBUG_PROVIDERS": f"floor:{port}",
                "FLOOR_RESOURCES": str(resources),
            }
            project = Path(folder) / "project"
            shutil.copytree(_PROGRAM, project)
            return _previews(environment, project, runs)
    finally:
        server.stop(grace=None).wait()


def _previews(environment: dict[str, str], project: Path, runs: int) -> list[float]:
    commands = [["stack", "init", "bench"], *[["preview", "-s", "bench"]] * (1 + runs)]
    seconds: list[float] = []
    for command in commands:
        begun = time.monotonic()
        answer = subprocess.run(
            ["pulumi", *command, "--non-interactive"],
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode:
            raise CommandError(f"floor: {one_line(answer.stdout[-500:] + answer.stderr[-500:])}")
        seconds.append(time.monotonic() - begun)
    return seconds[2:]
