"""Images that can be pulled."""

import pytest
from pydantic import ValidationError

from gke_inference.catalogue.versions import images
from twin.cluster.agent.images import missing
from twin.world.capacity import World, initial

LOCKED = images()["vllm_gpu"].reference


@pytest.mark.parametrize(
    "image",
    [
        LOCKED,
        LOCKED.removeprefix("docker.io/"),
        "vllm/vllm-openai:v0.31.0",
        f"docker.io/vllm/vllm-tpu@sha256:{'0' * 64}",
        "us-central1-docker.pkg.dev/acme/engines/vllm-openai:v0.99.0",
        "localhost:5000/vllm/vllm-openai:v0.99.0",
        "python:3.12",
        "busybox",
    ],
)
def test_an_image_that_was_seen_or_is_not_an_engines_can_be_pulled(image: str) -> None:
    assert missing(image, initial()) == ""


@pytest.mark.parametrize(
    "image", ["docker.io/vllm/vllm-tpu:v0.32.0", "vllm/vllm-openai:v0.99.0", "vllm/vllm-openai"]
)
def test_a_tag_of_an_engine_that_nobody_saw_cannot_be_pulled(image: str) -> None:
    problem = missing(image, initial())
    assert problem.startswith(f'Failed to pull image "{image}"')
    assert "\": not found (the twin's rule agent.image.tags; if the tag exists, add" in problem


def test_a_tag_that_the_world_lists_can_be_pulled() -> None:
    world = World(image_tags=("docker.io/vllm/vllm-openai:v0.99.0",))
    assert missing("vllm/vllm-openai:v0.99.0", world) == ""
    assert missing("vllm/vllm-openai:v0.99.1", world) != ""


def test_a_declared_tag_names_its_registry() -> None:
    with pytest.raises(ValidationError, match="image_tags"):
        World(image_tags=("v0.99.0",))
