"""The metrics of speculative decoding: those of vLLM's SpecDecodingProm.

Names, help and labels are those of vLLM 0.32.0 (v1/spec_decode/metrics.py). They exist only with
speculation, so they are not in `data/metrics.json`, which was read from a server without it.

A simulated step generates one token for each sequence, in the time of its share of a real step. So
it counts the same share of a draft, and counters are not whole numbers.
"""

from planner.speed.speculation import Speculation
from simulator.engine.exposition import Metric

_LABELS = ("engine", "model_name")


class SpecMetrics:
    """The metrics of an engine's drafts.

    Args:
        metrics: dictionary to which the families are added, by name.
        series: label values of the engine.
        guess: speculation of the engine.
    """

    def __init__(
        self, metrics: dict[str, Metric], series: tuple[str, str], guess: Speculation
    ) -> None:
        self._series, self._guess = series, guess
        self._drafts = _counter("num_drafts", "Number of spec decoding drafts.")
        self._drafted = _counter("num_draft_tokens", "Number of draft tokens.")
        self._accepted = _counter("num_accepted_tokens", "Number of accepted tokens.")
        self._by_place = _counter(
            "num_accepted_tokens_per_pos", "Accepted tokens per draft position.", "position"
        )
        for metric in (self._drafts, self._drafted, self._accepted):
            metric.touch(*series)
            metrics[metric.name] = metric
        for place in range(guess.tokens):
            self._by_place.touch(*series, str(place))
        metrics[self._by_place.name] = self._by_place

    def step(self, sequences: float) -> None:
        """Record a step that generates one token for each of some sequences."""
        guess = self._guess
        drafts = sequences / guess.length
        self._drafts.add(drafts, *self._series)
        self._drafted.add(drafts * guess.tokens, *self._series)
        self._accepted.add(drafts * (guess.length - 1), *self._series)
        for place, kept in enumerate(guess.chances):
            self._by_place.add(drafts * kept, *self._series, str(place))


def _counter(name: str, told: str, *labels: str) -> Metric:
    return Metric(f"vllm:spec_decode_{name}_total", "counter", told, (*_LABELS, *labels))
