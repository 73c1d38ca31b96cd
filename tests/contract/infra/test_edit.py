"""Writing a planned model into a stack file."""

import dataclasses
import shutil

import pytest

from infra.reading.edit import Placement, write_model
from infra.reading.load import STACKS, read
from infra.stack.problems import StackError

PLACEMENT = Placement(
    accelerator="nvidia-h100-80gb",
    provisioning=("flex-start", "spot"),
    topology=None,
    count=2,
    hosts=None,
    region="us-central1",
    tensor_parallel=None,
    parameters_billion=32.8,
    bits=16,
    checkpoint_bits=16,
    context=4096,
    replicas=2,
    most_replicas=6,
    slo_ms=(800, 40),
)


@pytest.fixture
def folder(tmp_path):
    shutil.copy(STACKS / "Pulumi.prod.yaml", tmp_path)
    return tmp_path


def test_a_new_model_is_in_the_stack_and_every_comment_is_kept(folder):
    before = (folder / "Pulumi.prod.yaml").read_text()
    write_model("prod", "mistral-nemo-12b", PLACEMENT, folder)
    platform = read("prod", folder)
    model = platform.models["mistral-nemo-12b"]
    assert (model.replicas.min, model.replicas.max) == (2, 6)
    rungs = platform.capacity[model.capacity].rungs
    assert [rung.provisioning.value for rung in rungs] == ["flex-start", "spot"]
    after = (folder / "Pulumi.prod.yaml").read_text()
    comments = [line.partition("#")[2] for line in before.splitlines() if "#" in line]
    assert all(comment in after for comment in comments)
    assert len(set(before.splitlines()) - set(after.splitlines())) <= 5


def test_a_model_that_is_there_keeps_its_other_words(folder):
    write_model("prod", "qwen3-32b", dataclasses.replace(PLACEMENT, bits=8), folder)
    model = read("prod", folder).models["qwen3-32b"]
    assert model.weights == "qwen3-32b"
    assert model.capacity == "qwen3-32b-plan"
    assert model.size.bits == 8
    assert model.settings.quantization is not None


def test_what_belonged_to_the_hardware_before_goes_with_it(folder):
    split = dataclasses.replace(PLACEMENT, bits=8, tensor_parallel=1)
    write_model("prod", "qwen3-32b", split, folder)
    write_model("prod", "qwen3-32b", PLACEMENT, folder)
    settings = read("prod", folder).models["qwen3-32b"].settings
    assert (settings.tensor_parallel, settings.quantization) == (None, None)


def test_a_stack_that_would_not_be_usable_is_left_as_it_was(folder):
    file = folder / "Pulumi.prod.yaml"
    before = file.read_bytes()
    with pytest.raises(StackError, match="must hold the model on every rung"):
        write_model("prod", "huge", dataclasses.replace(PLACEMENT, parameters_billion=400), folder)
    with pytest.raises(StackError, match="regions must have us-east5"):
        write_model("prod", "small", dataclasses.replace(PLACEMENT, region="us-east5"), folder)
    assert file.read_bytes() == before
