"""Images that can be pulled."""

import pytest
from pydantic import ValidationError

from gke_inference.catalogue.versions import images
from twin.host.paths import TwinPaths
from twin.world.capacity import World, initial
from twin.world.image_names import missing, repositories, upstream_of
from twin.world.store import Record, Store

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
    assert missing(image, initial(), is_unbuilt=False) == ""


@pytest.mark.parametrize(
    "image", ["docker.io/vllm/vllm-tpu:v0.32.0", "vllm/vllm-openai:v0.99.0", "vllm/vllm-openai"]
)
def test_a_tag_of_an_engine_that_nobody_saw_cannot_be_pulled(image: str) -> None:
    problem = missing(image, initial(), is_unbuilt=False)
    assert problem.startswith(f'Failed to pull image "{image}"')
    assert "\": not found (the twin's rule agent.image.tags; if the tag exists, add" in problem


def test_a_tag_that_the_world_lists_can_be_pulled() -> None:
    world = World(image_tags=("docker.io/vllm/vllm-openai:v0.99.0",))
    assert missing("vllm/vllm-openai:v0.99.0", world, is_unbuilt=False) == ""
    assert missing("vllm/vllm-openai:v0.99.1", world, is_unbuilt=False) != ""


OWN = [each.reference for each in images().values() if each.is_placeholder]


@pytest.mark.parametrize("image", OWN)
def test_an_image_that_nobody_built_cannot_be_pulled_where_there_is_a_repository(image) -> None:
    problem = missing(image, World(), is_unbuilt=True)
    assert problem.startswith(f'Failed to pull image "{image}"')
    assert "agent.image.own" in problem


@pytest.mark.parametrize("image", OWN)
def test_without_a_repository_the_twin_runs_our_programs_from_the_checkout(image) -> None:
    assert missing(image, World(), is_unbuilt=False) == ""


def test_a_built_image_is_pulled_by_its_digest() -> None:
    image = f"us-central1-docker.pkg.dev/acme/engines/callout@sha256:{'0' * 64}"
    assert missing(image, World(), is_unbuilt=True) == ""


def repository(name: str, **inputs: object) -> Record:
    kind = "gcp:artifactregistry/repository:Repository"
    values = {"location": "us-central1", "repositoryId": name, **inputs}
    return Record(kind, name, name, "acme", "urn", "ready", True, values, {}, 0.0)


def remote(name: str, **upstream: object) -> Record:
    return repository(name, mode="REMOTE_REPOSITORY", remoteRepositoryConfig=upstream)


HUB = remote("up-docker-io", dockerRepository={"publicRepository": "DOCKER_HUB"})
GITHUB = remote("up-ghcr-io", dockerRepository={"customRepository": {"uri": "https://ghcr.io"}})
COMMON = remote("up-quay-io", commonRepository={"uri": "https://quay.io"})
URL = "us-central1-docker.pkg.dev/acme"


@pytest.mark.parametrize(
    ("image", "served"),
    [
        (f"{URL}/up-docker-io/vllm/vllm-openai:v9", "docker.io/vllm/vllm-openai:v9"),
        (f"{URL}/up-ghcr-io/llm-d/epp:v1", "ghcr.io/llm-d/epp:v1"),
        (f"{URL}/up-quay-io/a/b:v1", "quay.io/a/b:v1"),
        (f"{URL}/engines/epp:v1", f"{URL}/engines/epp:v1"),
        ("us-central1-docker.pkg.dev/other/engines/epp:v1",) * 2,
        ("docker.io/vllm/vllm-openai:v9",) * 2,
    ],
)
def test_a_remote_repository_serves_the_images_of_its_upstream(image: str, served: str) -> None:
    known = [HUB, GITHUB, COMMON, repository("engines")]
    assert upstream_of(image, known, "acme") == (served, "")


@pytest.mark.parametrize(
    "image", [f"{URL}/absent/epp:v1", "europe-west4-docker.pkg.dev/acme/up-docker-io/a/b:v1"]
)
def test_a_repository_that_the_region_does_not_have_serves_nothing(image: str) -> None:
    served, problem = upstream_of(image, [HUB], "acme")
    assert served == image
    assert "the twin's rule agent.image.repository" in problem


def test_the_repository_of_another_project_is_not_the_clusters(tmp_path) -> None:
    paths = TwinPaths(tmp_path)
    paths.create()
    assert repositories(paths, "acme") == []
    Store(paths.cloud_db).add(repository("engines"), [])
    assert [each.name for each in repositories(paths, "acme")] == ["engines"]
    assert repositories(paths, "other") == []


def test_a_declared_tag_names_its_registry() -> None:
    with pytest.raises(ValidationError, match="image_tags"):
        World(image_tags=("v0.99.0",))
