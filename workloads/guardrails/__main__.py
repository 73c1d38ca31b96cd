"""`python -m guardrails`: serve the rails of a folder."""

import argparse
import logging
import sys
from pathlib import Path

from aiohttp import web

from workloads.common import logs

from .metrics import Metrics
from .rails import Rails, RailsError
from .server import application

_PORT = 9020
_DEFAULT = Path(__file__).parent / "default"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(prog="guardrails", description=__doc__)
    top.add_argument("--config", type=Path, default=_DEFAULT, help="folder of the rails")
    top.add_argument("--address", default="", help="address to listen on; empty: all")
    top.add_argument("--port", type=int, default=_PORT)
    return top


def main(argv: list[str] | None = None) -> int:
    """Serve until a signal ends it; return the exit status."""
    given = parser().parse_args(argv)
    # NeMo Guardrails writes what it checks into its own logs, even of a failed action
    logs.set_up(sys.stderr, libraries=logs.SILENT)
    logging.getLogger("nemoguardrails").setLevel(logs.SILENT)
    try:
        rails = Rails.load(given.config)
    except RailsError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    app = application(rails, Metrics())
    logs.say(logging.INFO, "serving", phases=list(rails.phases), port=given.port)
    web.run_app(
        app,
        host=given.address or None,
        port=given.port,
        print=None,
        access_log=None,
        handler_cancellation=True,  # nobody waits for the check of a request that is gone
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
