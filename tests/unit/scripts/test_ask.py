"""Asking a model: what is said when no answer comes."""

import socket
from collections.abc import Callable, Iterator

import pytest

from scripts.ask import draw, stream_chat
from scripts.console import CommandError


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("asked", [draw, stream_chat])
def test_a_model_that_is_silent_is_named_with_the_seconds_that_were_waited(
    silent: str, asked: Callable[..., object]
) -> None:
    with pytest.raises(CommandError, match=r"^llama: nothing came for 0\.2 s$"):
        asked(silent, "llama", "Hello", timeout=0.2)


@pytest.mark.parametrize("asked", [draw, stream_chat])
def test_a_gateway_that_nobody_listens_at_is_refused_by_the_system(
    asked: Callable[..., object],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(CommandError, match=r"llama: .*refused"):
        asked(address, "llama", "Hello", timeout=0.2)
