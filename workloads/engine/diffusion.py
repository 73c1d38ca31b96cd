"""The command line of the image server."""

from .spec import Serving

COMMAND = ("python3", "-m", "diffusion", "serve")


def arguments(serving: Serving) -> list[str]:
    """Return the arguments behind `COMMAND`; the configuration lies beside the weights."""
    return [f"--config={serving.source.rstrip('/')}/serve.json"]
