"""Quantizes a language model with LLM Compressor, in the format that vLLM reads."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from workloads.transfer.store import Store
from workloads.transfer.versions import Home
from workloads.transfer.work import Progress

from .samples import read_samples, tokens_of
from .settings import QuantizeSettings
from .weights import get, lines_of, put, releases

_SCHEMES: Final = {"fp8": "FP8_DYNAMIC", "w4a16": "W4A16", "w8a8": "W8A8"}
"""Preset schemes of compressed-tensors (quantization/quant_scheme.py)."""
_WHOLE: Final = ["lm_head"]
"""Layers that keep their precision, as in LLM Compressor's examples."""


Compress = Callable[[Path, Path, QuantizeSettings, list[dict[str, Any]]], dict[str, Any]]
"""Writes the quantized form of a model in a folder to another folder, and returns what else the
record of the result has."""


def run(settings: QuantizeSettings, store: Store, progress: Progress, compress: Compress) -> str:
    """Quantize a model and return the name of the result with its version.

    Args:
        settings: Model, result and scheme.
        store: Cloud Storage.
        progress: Takes the bytes that arrive.
        compress: Quantizes.

    Raises:
        SampleError: The data cannot be used.
        TransferError: The model or the data cannot be read, or the result cannot be written.
    """
    model, result = Path(settings.work) / "model", Path(settings.work) / "result"
    samples: list[dict[str, Any]] = []
    if settings.data:
        lines = lines_of(store, settings.bucket, settings.data)
        samples = list(read_samples(lines, settings.samples))
    source = get(store, settings.bucket, settings.model, model, progress)
    found = compress(model, result, settings, samples)
    record = {
        **found,
        "data": settings.data,
        "model": source,
        "samples": len(samples),
        "scheme": settings.scheme,
    }
    version = put(store, Home(settings.bucket, settings.result), result, record, progress)
    return f"{settings.result}@{version}"


def compressed(
    model: Path, result: Path, settings: QuantizeSettings, samples: list[dict[str, Any]]
) -> dict[str, Any]:
    """Quantize a model with LLM Compressor; a `Compress`."""
    # they take a minute to load; the data is read before
    llmcompressor: Any = import_module("llmcompressor")
    modifiers: Any = import_module("llmcompressor.modifiers.quantization")
    transformers: Any = import_module("transformers")
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(model)
    network: Any = transformers.AutoModelForCausalLM.from_pretrained(model, dtype="auto")
    scheme = _SCHEMES[settings.scheme]
    kind: Any = modifiers.GPTQModifier if samples else modifiers.QuantizationModifier
    recipe = kind(targets="Linear", scheme=scheme, ignore=_WHOLE)
    given: dict[str, Any] = {}
    if samples:
        every = [tokens_of(each, tokenizer, settings.tokens).ids for each in samples]
        rows = [{"attention_mask": [1] * len(ids), "input_ids": ids} for ids in every]
        given = {
            "dataset": import_module("datasets").Dataset.from_list(rows),
            "max_seq_length": settings.tokens,
            "num_calibration_samples": len(rows),
        }
    llmcompressor.oneshot(model=network, tokenizer=tokenizer, recipe=recipe, **given)
    network.save_pretrained(result, save_compressed=True)
    tokenizer.save_pretrained(result)
    names = ("llmcompressor", "compressed-tensors", "torch", "transformers")
    return {"packages": releases(*names)}
