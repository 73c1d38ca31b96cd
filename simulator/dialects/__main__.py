"""`python -m simulator.dialects ENGINE [flags]`: a simulated server other than vLLM.

ENGINE is `sglang`, `tgi`, `triton` or `tritonserver`; the flags are that server's own.
"""

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import uvloop

from simulator.dialects import sglang, tgi, triton
from simulator.engine import logs
from simulator.server.running import exit_on_failure, serve

_log = logging.getLogger("engine")
_SERVERS: Mapping[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "sglang": (sglang.settle, sglang.make),
    "tgi": (tgi.settle, tgi.make),
    "triton": (triton.settle, triton.make),
}
ENGINES = tuple(_SERVERS)
"""Names of the servers, as in a stack."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run a server; exit with status 2 for invalid flags, and 1 if the real one would not start."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] not in (*_SERVERS, "tritonserver"):
        named = ",".join((*_SERVERS, "tritonserver"))
        sys.stderr.write(f"usage: python -m simulator.dialects {{{named}}} [flags]\n")
        sys.exit(2)
    logs.set_up()
    with exit_on_failure(_log):
        if words[0] == "tritonserver":
            # ONNX Runtime is large
            from simulator.dialects import predictive_server as predictive  # noqa: PLC0415

            uvloop.run(predictive.serve(predictive.settle(words[1:], os.environ)))
            return
        settle, make = _SERVERS[words[0]]
        settings = settle(words[1:], os.environ)
        uvloop.run(serve(settings.deployment, settings.port, lambda: make(settings)))


if __name__ == "__main__":
    main()
