"""`python -m simulator.server.worker LEADER PORT NAME`: one host of a group that does not serve.

Like `ray start --block` and a headless vLLM, it exits with status 1 when its leader is lost. On
SIGTERM, a headless vLLM exits with 0, and Ray with 1 (ray-project/ray @0036699,
python/ray/_private/node.py, `sigterm_handler`).
"""

import asyncio
import os
import signal
import sys

import uvloop

from simulator.engine import logs
from simulator.engine.logs import LOG
from simulator.server.group import names_file, work
from twin.engines.vllm_flags import RAY_PORT


async def _run(leader: str, port: int, name: str) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    working = asyncio.create_task(work(leader, port, name, names_file(os.environ)))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if stop.is_set():
        return int(port == RAY_PORT)
    await working
    LOG.error("the leader %s is gone", leader)
    return 1


def main() -> None:
    """Run the worker."""
    logs.set_up()
    leader, port, name = sys.argv[1:4]
    sys.exit(uvloop.run(_run(leader, int(port), name)))


if __name__ == "__main__":
    main()
