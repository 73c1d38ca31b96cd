"""Errors in vLLM's format."""

from typing import Any

from aiohttp import web

from simulator.server.bodies.json_answers import json_response

_TYPES = {
    400: "BadRequestError",
    401: "Unauthorized",
    404: "NotFoundError",
    422: "UnprocessableEntityError",
    500: "InternalServerError",
    501: "NotImplementedError",
    503: "Service Unavailable",
}


class ApiError(Exception):
    """The request gets an error response."""

    def __init__(self, status: int, message: str, param: str | None = None, kind: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.kind = kind or _TYPES.get(status, "BadRequestError")

    def body(self) -> dict[str, Any]:
        """Return the body in vLLM's format."""
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param,
                "code": self.status,
            }
        }

    def response(self) -> web.Response:
        """Return the answer."""
        return json_response(self.body(), status=self.status)


def engine_dead() -> ApiError:
    """Return vLLM's response for open requests when the engine died."""
    return ApiError(
        500,
        "EngineCore encountered an issue. See stack trace (above) for the root cause.",
    )


def unknown_model(name: str, served: tuple[str, ...]) -> ApiError:
    """Return vLLM's response for a model that it does not serve."""
    return ApiError(
        404,
        f"The model `{name}` does not exist. Valid aliases: {', '.join(served)}.",
        param="model",
    )
