"""Address of the server through which pods reach Google's APIs with their own identity."""

from typing import Final

from twin.host.loopback_server import LoopbackServer, served_by
from twin.host.paths import TwinPaths
from twin.providers.gcp.iam.principals import Principal

NAME: Final = "api-endpoint"
_SERVER: Final = LoopbackServer(NAME, served_by("twin.providers.gcp.endpoints.server"))


def url(paths: TwinPaths, caller: Principal) -> str:
    """Return the base address of a caller's requests, after starting the server if needed.

    Raises:
        processes.ProcessError: The server did not start.
    """
    return f"http://{_SERVER.address(paths)}{caller.path}"


def start(paths: TwinPaths) -> None:
    """Start the server if it does not run.

    Raises:
        processes.ProcessError: The server did not start.
    """
    _SERVER.ensure(paths)


def repair(paths: TwinPaths) -> None:
    """Restart the server on its port if it ran before and ended."""
    _SERVER.repair(paths)
