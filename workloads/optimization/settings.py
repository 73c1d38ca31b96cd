"""Settings of the jobs, each read from one JSON file."""

from dataclasses import dataclass
from typing import Any, Final

from workloads.common.settings import (
    SettingsError,
    check_bounds,
    check_endpoint,
    check_kind,
    read,
    read_object,
)

__all__ = [
    "EvaluateSettings",
    "QuantizeSettings",
    "SettingsError",
    "TuneSettings",
    "read_evaluate",
    "read_quantize",
    "read_tune",
]

SCHEMES: Final = ("fp8", "w4a16", "w8a8")
"""Schemes of quantization: 8-bit floating point, 4-bit weights, 8-bit integers."""
NEEDS_DATA: Final = ("w4a16", "w8a8")
"""Schemes that need samples of text for their calibration."""
RANKS: Final = (8, 16, 32, 64, 128, 256)
"""Ranks of adapters, those that vLLM accepts in `--max-lora-rank`."""
_SIDE: Final = {"model": str, "version": str, "weights": str}


@dataclass(frozen=True)
class QuantizeSettings:
    """A model, and the folder for its quantized form."""

    bucket: str
    """Bucket of the weights and of the data."""
    model: str
    """Folder of the model in the bucket; FOLDER@VERSION for one version."""
    result: str
    """Folder of the quantized model in the bucket."""
    scheme: str
    """One of `SCHEMES`."""
    data: str = ""
    """Object with samples of text; empty for a scheme that needs none."""
    samples: int = 512
    """Maximum number of samples."""
    tokens: int = 2048
    """Maximum length of a sample in tokens."""
    work: str = "/work"
    """Folder for temporary files."""


@dataclass(frozen=True)
class TuneSettings:
    """A model, the data, and the folder for the adapter."""

    bucket: str
    """Bucket of the weights and of the data."""
    model: str
    """Folder of the model in the bucket; FOLDER@VERSION for one version."""
    result: str
    """Folder of the adapter in the bucket."""
    data: str
    """Object with samples."""
    rank: int = 16
    """Rank of the adapter, one of `RANKS`."""
    alpha: int = 32
    """Scale of the adapter, divided by its rank."""
    epochs: int = 3
    """Number of times that each sample is used."""
    batch: int = 8
    """Samples in each step."""
    learning_rate: float = 0.0002
    """Learning rate at the beginning; it falls to 0."""
    tokens: int = 2048
    """Maximum length of a sample in tokens."""
    work: str = "/work"
    """Folder for temporary files."""


@dataclass(frozen=True)
class EvaluateSettings:
    """Two models behind an endpoint, and what they are compared by."""

    bucket: str
    """Bucket of the weights, the data and the results."""
    name: str
    """Name of the evaluation."""
    endpoint: str
    """URL of the gateway, without a path."""
    candidate: dict[str, Any]
    """`model` for requests, `version` for the header x-model-version (or none), and `weights` in
    the bucket: FOLDER or FOLDER@VERSION."""
    baseline: dict[str, Any]
    """The same for the model that the candidate must not be worse than."""
    tolerance: float
    """Maximum loss of a score, from 0 to 1."""
    tasks: tuple[str, ...] = ()
    """Tasks of the evaluation harness, which come from the Hugging Face hub."""
    data: str = ""
    """Object with questions and answers; empty for none."""
    metric: str = ""
    """Metric of the tasks, as METRIC,FILTER; empty for the first one of each task."""
    limit: int = 0
    """Maximum number of questions of a task; 0 for all."""
    answer_tokens: int = 256
    """Maximum length of an answer in tokens, for tasks that name none."""
    concurrency: int = 8
    """Concurrent requests."""
    key_file: str = ""
    """File of the key of a client team; empty where requests need none."""
    work: str = "/work"
    """Folder for temporary files."""


def read_quantize(text: str) -> QuantizeSettings:
    """Return the settings of a quantization.

    Raises:
        SettingsError: A field is missing, unknown, of another kind or out of range.
    """
    found = read(QuantizeSettings, text)
    _check_word("scheme", found.scheme, SCHEMES)
    if found.scheme in NEEDS_DATA and not found.data:
        raise SettingsError(f"data: must be set for scheme {found.scheme}, got nothing")
    check_bounds("quantize", found)
    return found


def read_tune(text: str) -> TuneSettings:
    """Return the settings of an adapter.

    Raises:
        SettingsError: A field is missing, unknown, of another kind or out of range.
    """
    found = read(TuneSettings, text)
    _check_word("rank", str(found.rank), tuple(str(rank) for rank in RANKS))
    check_bounds("tune", found)
    return found


def read_evaluate(text: str) -> EvaluateSettings:
    """Return the settings of an evaluation.

    Raises:
        SettingsError: A field is missing, unknown, of another kind or out of range.
    """
    given = read_object(text, EvaluateSettings)
    sides = {name: given.get(name) for name in ("baseline", "candidate")}
    for name, side in sides.items():
        check_kind(name, dict[str, Any], side)
        if not isinstance(side, dict) or set(side) != set(_SIDE):
            raise SettingsError(f"{name}: must have the fields {', '.join(_SIDE)}")
        for field, kind in _SIDE.items():
            check_kind(f"{name}.{field}", kind, given[name][field])
    if given.get("tolerance") == 0:
        given["tolerance"] = 0.0
    check_kind("tolerance", float, given.get("tolerance"))
    given["tasks"] = tuple(given.get("tasks", ()))
    try:
        found = EvaluateSettings(**given)
    except TypeError as error:
        raise SettingsError(str(error)) from None
    check_endpoint(found.endpoint)
    if not found.tasks and not found.data:
        raise SettingsError("tasks, data: must have one of them, got neither")
    check_bounds("evaluate", found)
    return found


def _check_word(field: str, word: str, words: tuple[str, ...]) -> None:
    if word not in words:
        raise SettingsError(f"{field}: must be one of {', '.join(words)}, got {word!r}")
