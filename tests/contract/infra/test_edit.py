"""Writing a planned model into a stack file."""

import dataclasses
import shutil
from pathlib import Path

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
    network=None,
    region="us-central1",
    tensor_parallel=None,
    parameters_billion=32.8,
    bits=16,
    checkpoint_bits=16,
    context=4096,
    replicas=2,
    most_replicas=6,
    kv_cache_dtype=None,
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


def test_a_change_is_made_from_one_reading_of_the_file(folder, monkeypatch):
    read_text, readings = Path.read_text, []

    def counted(file, *args, **options):
        readings.append(file.name)
        return read_text(file, *args, **options)

    monkeypatch.setattr(Path, "read_text", counted)
    write_model("prod", "mistral-nemo-12b", PLACEMENT, folder)
    assert readings.count("Pulumi.prod.yaml") == 1


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


def change(file, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


EXPERTS = dataclasses.replace(
    PLACEMENT,
    accelerator="nvidia-h200-141gb",
    provisioning=("spot",),
    count=8,
    parameters_billion=235,
    bits=8,
    experts=True,
    weights="qwen3-235b-a22b",
)


def test_experts_are_written_kept_and_removed_with_the_hardware(folder):
    name = "sparse"
    write_model("prod", name, EXPERTS, folder)
    model = read("prod", folder).models[name]
    assert model.weights == "qwen3-235b-a22b"
    assert model.experts is not None
    change(folder / "Pulumi.prod.yaml", "experts: {}", "experts: {redundant: 8}")
    write_model("prod", name, dataclasses.replace(EXPERTS, most_replicas=7), folder)
    model = read("prod", folder).models[name]
    assert model.replicas.max == 7
    assert model.experts is not None
    assert model.experts.redundant == 8
    write_model("prod", name, dataclasses.replace(EXPERTS, experts=False), folder)
    assert read("prod", folder).models[name].experts is None


def test_a_move_keeps_all_but_the_hardware(folder):
    before = read("prod", folder).models["qwen3-32b"]
    moved = dataclasses.replace(PLACEMENT, is_move=True, context=512, bits=8)
    write_model("prod", "qwen3-32b", moved, folder)
    after = read("prod", folder).models["qwen3-32b"]
    hardware = {"capacity": before.capacity, "replicas": before.replicas}
    assert after.model_copy(update=hardware) == before


def test_settings_of_a_capacity_are_copied_and_not_shared(folder):
    file = folder / "Pulumi.prod.yaml"
    change(file, "      small:\n", "      small:\n        node_pools: {max_nodes: 9}\n")
    moved = dataclasses.replace(PLACEMENT, is_move=True, accelerator="nvidia-l4", count=1)
    write_model("prod", "qwen3-embedding-0.6b", moved, folder)
    capacity = read("prod", folder).capacity
    assert capacity["qwen3-embedding-0-6b-plan"].node_pools == capacity["small"].node_pools
    assert "&" not in file.read_text()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "weights: qwen3-32b\n",
            "weights: qwen3-32b\n        engine: sglang\n",
            r"qwen3-32b.engine must be vllm, the engine that the choice is for, got 'sglang'",
        ),
        (
            "        context: 32768\n        replicas: {min: 1, max: 4, standby: 1}",
            "        context: &long 32768\n        replicas: {min: 1, max: 4, standby: 1}",
            r"Pulumi.prod.yaml must be without YAML anchors, which could also change what refers to"
            r" them, got &long in line \d+",
        ),
        (
            "        context: 32768\n        replicas: {min: 1, max: 4, standby: 1}",
            "        context:\t32768\n        replicas: {min: 1, max: 4, standby: 1}",
            r"Pulumi.prod.yaml must be YAML that can be written with its comments, got .* in line",
        ),
    ],
)
def test_what_a_choice_cannot_be_written_over_is_refused(folder, old, new, message):
    file = folder / "Pulumi.prod.yaml"
    change(file, old, new)
    before = file.read_bytes()
    with pytest.raises(StackError, match=message):
        write_model("prod", "qwen3-32b", PLACEMENT, folder)
    assert file.read_bytes() == before


def test_replicas_that_do_both_are_not_written_over_separate_roles(folder):
    split = dataclasses.replace(
        PLACEMENT, accelerator="nvidia-h200-141gb", count=8, prefill_replicas=(1, 2),
        provisioning=("spot",),
    )  # fmt: skip
    write_model("prod", "mistral-nemo-12b", split, folder)
    with pytest.raises(StackError, match=r"disaggregated must be removed first: replicas of this"):
        write_model("prod", "mistral-nemo-12b", PLACEMENT, folder)


@pytest.mark.parametrize("stack", ["shared", "search"])
def test_only_a_file_with_models_and_their_capacity_can_be_written(tmp_path, stack):
    for file in (STACKS.parent / "docs" / "examples" / "teams").glob("Pulumi.*.yaml"):
        shutil.copy(file, tmp_path)
    with pytest.raises(StackError, match="layer must be all: models and their capacity are in"):
        write_model(stack, "mistral-nemo-12b", PLACEMENT, tmp_path)
