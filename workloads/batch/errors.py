"""Refusals in the format of OpenAI's API."""

import json

from aiohttp import web


class Refused(Exception):
    """A refused call."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self._headers = {} if retry_after is None else {"retry-after": str(retry_after)}
        self.status = status
        self._code = code
        self._param = param

    def response(self) -> web.Response:
        """Return the response for the client."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        error = {
            "message": str(self),
            "type": kind,
            "param": self._param,
            "code": self._code,
        }
        return web.Response(
            status=self.status,
            headers=self._headers,
            text=json.dumps({"error": error}),
            content_type="application/json",
        )


def invalid(param: str, message: str) -> Refused:
    """Return the refusal of a value."""
    return Refused(400, message, code="invalid_value", param=param)
