"""What the handlers do with the requests of one body: queue all of them or none, and await them."""

from collections.abc import Callable, Iterable

from simulator.engine.engine import Engine, EngineBusyError
from simulator.engine.request import FinishReason, Request
from simulator.server.bodies.errors import ApiError, engine_dead


def queue_all(engine: Engine, submissions: Iterable[Callable[[], Request]]) -> list[Request]:
    """Queue requests, all of them or none.

    Raises:
        ApiError: 500 if the engine is dead, 503 if its queue is full.
    """
    if engine.dead:
        raise engine_dead()
    requests: list[Request] = []
    try:
        for submit in submissions:
            requests.append(submit())  # noqa: PERF401 - those before a refusal are aborted
    except EngineBusyError as error:
        for request in requests:
            engine.abort(request)
        raise ApiError(503, str(error)) from error
    return requests


async def ended(engine: Engine, request: Request) -> str:
    """Wait for the end of a request, and return its reason.

    Raises:
        ApiError: the engine died, or the request failed in it.
    """
    async for _ in engine.results(request):
        pass
    if engine.dead:
        raise engine_dead()
    if request.finished is FinishReason.ERROR:
        raise ApiError(500, "Internal server error")
    return (request.finished or FinishReason.ABORT).value
