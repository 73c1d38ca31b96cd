"""`python -m simulator.sidecar --port 8000 --vllm-port 8200`: the sidecar's process."""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence

import uvloop
from aiohttp import web

from simulator.sidecar.proxy import Sidecar

ADDRESS = "GKE_INFERENCE_SIM_POD_IP"
_SHUTDOWN_SECONDS = 60.0  # as the real one waits for what it still answers


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Read the flags of llm-d-routing-sidecar v0.8.0 that apply to the twin.

    Raises:
        SystemExit: status 2 for another flag or connector, or TLS, which the twin does not support.
    """
    parser = argparse.ArgumentParser(prog="llm-d-routing-sidecar", allow_abbrev=False)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--vllm-port", type=int, default=8001)
    parser.add_argument("--kv-connector", choices=["nixlv2"], default="nixlv2")
    # the real default is true; a pool's health check and Envoy use plain HTTP
    parser.add_argument("--secure-proxy", choices=["false"], required=True)
    parser.add_argument("--zap-encoder", default="json")
    return parser.parse_args(list(argv))


async def serve(given: argparse.Namespace, address: str) -> None:
    """Listen on the pod's address until SIGTERM or SIGINT, then finish open requests.

    Raises:
        OSError: the port is in use.
    """
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    runner = runner_of(Sidecar(f"http://{address}:{given.vllm_port}"))
    await runner.setup()
    await web.TCPSite(runner, address, given.port, backlog=2048).start()
    await stop.wait()
    await runner.cleanup()


def runner_of(sidecar: Sidecar) -> web.AppRunner:
    """Return the server, which drops the request to the engine when its client goes away."""
    return web.AppRunner(
        sidecar.app, access_log=None, handler_cancellation=True, shutdown_timeout=_SHUTDOWN_SECONDS
    )


def main() -> None:
    """Run the sidecar; exit with status 1 if it cannot listen."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    given = arguments(sys.argv[1:])
    try:
        uvloop.run(serve(given, os.environ.get(ADDRESS, "127.0.0.1")))
    except OSError as error:
        logging.getLogger("routing-sidecar").error("%s", error)
        sys.exit(1)


if __name__ == "__main__":
    main()
