"""Jobs that quantize models and train adapters, without arithmetic.

`python -m simulator.optimization ROLE FILE` is the program of the jobs with its own settings, data,
downloads and uploads (`workloads.optimization`); only the work of LLM Compressor and PEFT is
missing. A quantized model has the weights of its source, an adapter random ones. A run takes no
time beyond that of its files.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any, Final

from twin.engines.real.tiny_model import write_adapter
from workloads.engine.weights_manifest import MANIFEST_NAME
from workloads.optimization.main import main
from workloads.optimization.settings import QuantizeSettings, TuneSettings
from workloads.optimization.weights import RECORD
from workloads.transfer.errors import Refused

_BITS: Final = {"fp8": (8, "float"), "w4a16": (4, "int"), "w8a8": (8, "int")}
"""Bits and type of the weights of a scheme (compressed-tensors, quantization/quant_scheme.py)."""
_SIMULATED: Final = {"packages": {}, "simulated": True}


def compress(
    model: Path, result: Path, settings: QuantizeSettings, samples: list[dict[str, Any]]
) -> dict[str, Any]:
    """Copy a model and name its format, as LLM Compressor does.

    Raises:
        Refused: The folder has no model that the library could load.
    """
    del samples
    config = _config(model)
    shutil.copytree(model, result, ignore=shutil.ignore_patterns(MANIFEST_NAME, RECORD))
    bits, kind = _BITS[settings.scheme]
    config["quantization_config"] = {
        "config_groups": {
            "group_0": {"targets": ["Linear"], "weights": {"num_bits": bits, "type": kind}}
        },
        "ignore": ["lm_head"],
        "quant_method": "compressed-tensors",
    }
    (result / "config.json").write_text(json.dumps(config))
    return _SIMULATED


def train(
    model: Path, result: Path, settings: TuneSettings, samples: list[dict[str, Any]]
) -> dict[str, Any]:
    """Write an adapter of random weights, for the twin's sample model.

    Raises:
        Refused: The folder has no model that the library could load.
    """
    del samples
    _config(model)
    write_adapter(result, rank=settings.rank)
    file = result / "adapter_config.json"
    config = json.loads(file.read_text()) | {"lora_alpha": settings.alpha}
    file.write_text(json.dumps(config))
    return _SIMULATED


def _config(model: Path) -> dict[str, Any]:
    """Return the configuration of a model whose files Transformers would load."""
    try:
        config = json.loads((model / "config.json").read_text())
    except (FileNotFoundError, ValueError) as error:
        raise Refused(f"model: must have config.json, got {error}") from None
    if not isinstance(config, dict) or not config.get("model_type"):
        raise Refused("model: must have 'model_type' in config.json, got none")
    for pattern in ("*.safetensors", "tokenizer*"):
        if not list(model.glob(pattern)):
            raise Refused(f"model: must have {pattern}, got no such file")
    return config


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], compress, train))
