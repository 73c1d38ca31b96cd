"""Requests to a predictive model behind the gateway: the Open Inference Protocol in JSON."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import quote

import requests

from .settings import Settings

_LATER: Final = frozenset({401, 403, 408, 425, 429})
"""Statuses below 500 after which the same request may succeed: a key that changes, a pool that is
full."""
_LONGEST_DETAIL: Final = 200


class BusyError(Exception):
    """No answer now; the same request may succeed later."""


class RefusedError(Exception):
    """An answer that no further attempt changes; has the reason of a dead letter."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class Asking:
    """A client of one model, with a connection that is kept open."""

    def __init__(self, settings: Settings, read_key: Callable[[], str] | None) -> None:
        """Make a client.

        Args:
            settings: Settings of the pipeline.
            read_key: Returns the key of the team; None where requests need none.
        """
        self._settings = settings
        self._read_key = read_key
        self._session = requests.Session()
        self._url = f"{settings.endpoint.rstrip('/')}/v2/models/{quote(settings.model)}/infer"
        self._use_key()

    def score(self, rows: Sequence[Sequence[float]]) -> list[float]:
        """Return the score of each row of features.

        Raises:
            BusyError: There is no answer now.
            RefusedError: The model rejects the rows, or its answer does not fit.
        """
        data = [number for row in rows for number in row]
        tensor = {
            "name": self._settings.input,
            "datatype": "FP32",
            "shape": [len(rows), len(self._settings.features)],
            "data": data,
        }
        body = {"inputs": [tensor], "outputs": [{"name": self._settings.output}]}
        try:
            answer = self._session.post(
                self._url, json=body, timeout=self._settings.timeout_seconds
            )
        except requests.RequestException as error:
            raise BusyError(type(error).__name__) from error
        if answer.status_code == 200:
            return self._scores(answer, len(rows))
        detail = answer.text[:_LONGEST_DETAIL]
        if answer.status_code in _LATER or answer.status_code >= 500:
            if answer.status_code in (401, 403):
                self._use_key()
            raise BusyError(f"HTTP {answer.status_code}: {detail}")
        raise RefusedError(f"http-{answer.status_code}", detail)

    def _scores(self, answer: requests.Response, rows: int) -> list[float]:
        try:
            outputs: Any = answer.json()["outputs"]
            tensor = next(each for each in outputs if each["name"] == self._settings.output)
            found = [float(number) for number in tensor["data"]]
        except (KeyError, StopIteration, TypeError, ValueError):
            raise RefusedError("bad-answer", f"no tensor {self._settings.output}") from None
        if len(found) != rows:
            raise RefusedError("bad-answer", f"{len(found)} scores for {rows} events")
        if not all(math.isfinite(score) for score in found):
            raise RefusedError("bad-answer", "a score that is no number")
        return found

    def _use_key(self) -> None:
        if self._read_key is not None:
            self._session.headers["Authorization"] = f"Bearer {self._read_key()}"
