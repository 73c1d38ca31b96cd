"""Files of adapters of FLUX.1, as read by the server: scales, and parts that it cannot apply."""

import json

import pytest

from tests.diffusion.conftest import run

pytestmark = [pytest.mark.needs_tools, pytest.mark.needs_diffusion, pytest.mark.timeout(600)]
_LAYER = "text_encoder.text_model.encoder.layers.0.self_attn.q_proj"
_OF_WORDS = [f"{_LAYER}.lora_{part}.weight" for part in "AB"]
_SCALE = {"transformer.r": 4, "transformer.lora_alpha": 8}
FILES = {
    "ranks": {"metadata": {**_SCALE, "transformer.rank_pattern": {"a": 2}}, "more": []},
    "scale": {"metadata": _SCALE, "more": []},
    "words": {"metadata": {}, "more": _OF_WORDS},
}
"""Adapters by a name: their metadata, and names of tensors beside those of the transformer."""
_READ = """
import json, pathlib, sys
from diffusion.xla.lora import transformer_changes
from diffusion.xla.tiny import write_adapter
from safetensors.torch import load_file, save_file
import torch

def read(folder, told):
    plain = transformer_changes(write_adapter(folder, rank=4))
    file = folder / "pytorch_lora_weights.safetensors"
    state = load_file(file) | {name: torch.ones(4, 4) for name in told["more"]}
    metadata = {"format": "pt", "lora_adapter_metadata": json.dumps(told["metadata"])}
    save_file(state, file, metadata)
    try:
        changes = transformer_changes(folder)
    except ValueError as error:
        return str(error)
    ratios = (abs(changes[name][1] / plain[name][1]).mean() for name in plain)
    return sorted({round(float(each), 3) for each in ratios})

folder, files = pathlib.Path(sys.argv[1]), json.loads(sys.argv[2])
print(json.dumps({name: read(folder / name, told) for name, told in files.items()}))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The scales of each adapter, or why it is rejected."""
    said = run("-c", _READ, tmp_path_factory.mktemp("adapters"), json.dumps(FILES))
    return json.loads(said.splitlines()[-1])


def test_the_scale_that_peft_writes_into_the_metadata_applies(found):
    assert found["scale"] == [2.0]


def test_different_scales_in_the_metadata_are_rejected(found):
    assert found["ranks"] == "must have one rank and scale for all layers, got rank_pattern"


def test_a_change_of_a_text_encoder_is_rejected_instead_of_left_out(found):
    assert found["words"] == f"must change the transformer alone, got {_OF_WORDS[0]}"
