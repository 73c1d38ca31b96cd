"""Beam's handler of a remote model, for the gateway: batches, retries with back-off, throttling."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from apache_beam.ml.inference.base import PredictionResult, RemoteModelHandler
from apache_beam.utils.secret import GcpSecret

from .asking import Asking, BusyError, RefusedError
from .settings import Settings


class GatewayModel(RemoteModelHandler[Sequence[float], PredictionResult, Asking]):
    """A predictive model behind the gateway, for `RunInference`.

    A prediction is a number, or the `RefusedError` of an event that the model rejects. Beam
    repeats a request that raises `BusyError`, after 5 seconds and then twice as long each time,
    and sends less while requests fail.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(
            namespace="GatewayModel",
            num_retries=settings.retries,
            retry_filter=lambda error: isinstance(error, BusyError),
        )
        self._settings = settings

    def create_client(self) -> Asking:
        """Return the client of a worker process."""
        secret = self._settings.key_secret
        if not secret:
            return Asking(self._settings, None)
        return Asking(self._settings, lambda: GcpSecret(secret).get_secret_bytes().decode().strip())

    def batch_elements_kwargs(self) -> Mapping[str, Any]:
        """Return the bounds of a batch."""
        return {"min_batch_size": 1, "max_batch_size": self._settings.batch}

    def request(
        self,
        batch: Sequence[Sequence[float]],
        model: Asking,
        inference_args: dict[str, Any] | None = None,
    ) -> Iterable[PredictionResult]:
        """Return the score of each event, or the reason why it has none.

        Raises:
            BusyError: There is no answer now.
        """
        del inference_args
        return [
            PredictionResult(row, found, self._settings.model)
            for row, found in zip(batch, scored(model, batch), strict=True)
        ]


def scored(model: Asking, rows: Sequence[Sequence[float]]) -> list[float | RefusedError]:
    """Return the score of each row. If the model rejects several rows, each is asked alone."""
    try:
        return list(model.score(rows))
    except RefusedError as error:
        if len(rows) == 1:
            return [error]
    return [found for row in rows for found in scored(model, [row])]
