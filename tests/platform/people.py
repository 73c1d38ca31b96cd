"""People who ask a model beside other work, and how long they wait for the first token."""

import math
import threading
import time

import httpx2
import openai

TTFT_SLO_MS = 500.0
"""The `slo.ttft_p95_ms` of the models that batches and streams share with people."""


class People:
    """Somebody who asks again and again, with streamed answers."""

    def __init__(self, api: openai.OpenAI, model: str) -> None:
        self.failed: list[str] = []
        self.waits_ms: list[float] = []
        """Time to first token of each request; infinite if none came, so that failures count."""
        self._api, self._model = api, model
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    @property
    def answered(self) -> int:
        return len(self.waits_ms) - len(self.failed)

    @property
    def ttft_p95_ms(self) -> float:
        """Nearest-rank 95th percentile."""
        return sorted(self.waits_ms)[math.ceil(0.95 * len(self.waits_ms)) - 1]

    def _ask(self) -> None:
        while not self._over.wait(0.2):
            began, first = time.monotonic(), math.inf
            try:
                with self._api.chat.completions.create(
                    model=self._model,
                    messages=[{"role": "user", "content": "hi"}],
                    max_tokens=8,
                    stream=True,
                ) as answer:
                    for chunk in answer:
                        if first == math.inf and chunk.choices and chunk.choices[0].delta.content:
                            first = time.monotonic()
                if first == math.inf:
                    self.failed.append("an answer without a token")
            except (openai.APIError, httpx2.HTTPError) as error:  # the second: a stream that is cut
                self.failed.append(repr(error))
            self.waits_ms.append(1000 * (first - began))

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
