"""`python -m simulator.server serve MODEL [flags]`: the simulated vLLM as a process."""

import os
import sys

import uvloop

from gke_inference.catalogue.versions import engine_version
from simulator.engine import logs
from simulator.engine.engine import Engine
from simulator.engine.logs import LOG
from simulator.engine.settings import Deployment, Surroundings, deploy
from simulator.server.running import exit_on_failure, serve
from simulator.server.server import PORT, ApiServer
from twin.engines import vllm_flags as flags


def _make(deployment: Deployment) -> tuple[Engine, ApiServer]:
    engine = Engine(deployment)
    return engine, ApiServer(engine)


def main() -> None:
    """Run the server; exit with status 2 for invalid flags, and 1 if vLLM would not start."""
    logs.set_up()
    on_tpu = Surroundings.of(os.environ).accelerator.kind == "tpu"
    release = engine_version("vllm_tpu" if on_tpu else "vllm_gpu")
    namespace = flags.parse(sys.argv[1:], release)
    with exit_on_failure(LOG):
        deployment = deploy(namespace, os.environ)
        uvloop.run(serve(deployment, deployment.flags.port or PORT, lambda: _make(deployment)))


if __name__ == "__main__":
    main()
