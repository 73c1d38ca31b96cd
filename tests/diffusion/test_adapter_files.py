"""Files of adapters of FLUX.1, as read by the server: scales, and parts that it cannot apply."""

import json

import pytest

from tests.diffusion.conftest import run

pytestmark = [pytest.mark.needs_tools, pytest.mark.needs_diffusion, pytest.mark.timeout(600)]
_READ = """
import json, pathlib, sys
from diffusion.xla.lora import transformer_changes
from diffusion.xla.tiny import write_adapter
from safetensors.torch import load_file, save_file
import torch

told, more = json.loads(sys.argv[2]), sys.argv[3:]
folder = pathlib.Path(sys.argv[1])
plain = transformer_changes(write_adapter(folder, rank=4))
file = folder / "pytorch_lora_weights.safetensors"
state = load_file(file) | {name: torch.ones(4, 4) for name in more}
save_file(state, file, {"format": "pt", "lora_adapter_metadata": json.dumps(told)})
try:
    changes = transformer_changes(folder)
    ratios = {round(float(abs(changes[name][1] / plain[name][1]).mean()), 3) for name in plain}
    print(json.dumps(sorted(ratios)))
except ValueError as error:
    print(json.dumps(str(error)))
"""


def read(folder, told, *more):
    """Return the scales of an adapter with metadata and more tensors, or the error."""
    return json.loads(
        run("-c", _READ, folder / "adapter", json.dumps(told), *more).splitlines()[-1]
    )


def test_the_scale_that_peft_writes_into_the_metadata_applies(tmp_path):
    assert read(tmp_path, {"transformer.r": 4, "transformer.lora_alpha": 8}) == [2.0]


def test_different_scales_in_the_metadata_are_rejected(tmp_path):
    told = {"transformer.r": 4, "transformer.lora_alpha": 8, "transformer.rank_pattern": {"a": 2}}
    assert read(tmp_path, told) == "must have one rank and scale for all layers, got rank_pattern"


def test_a_change_of_a_text_encoder_is_rejected_instead_of_left_out(tmp_path):
    layer = "text_encoder.text_model.encoder.layers.0.self_attn.q_proj"
    names = [f"{layer}.lora_{part}.weight" for part in "AB"]
    found = read(tmp_path, {}, *names)
    assert found == f"must change the transformer alone, got {names[0]}"
