"""Personalized images in a stack: what a region builds for them, and what without them."""

import json
from typing import Any

from infra.bootstrap.ci import deploy_roles
from infra.estimate.stack_cost import stack_cost
from infra.plan import resolve
from infra.plan.image_names import repository_names
from infra.reading.load import parse, platform_of
from policies.framework.reading import kept_pods
from policies.framework.resources import Resource
from scripts.bootstrap.command import settings_of
from tests.shipped_stacks import EXAMPLES
from workloads.engine.diffusion import TEXT_ENCODER_BITS

BUCKET = "acme-images-personal-us-east5"


def example(**changes: Any) -> Any:
    name = "personalized-images"
    content = platform_of(EXAMPLES / name / f"Pulumi.{name}.yaml")
    return parse(json.dumps({**content, **changes}))


def test_each_part_gets_the_access_that_it_needs(deployed: Any) -> None:
    made = deployed(example())
    grants = {
        (each.inputs["bucket"], str(each.inputs.get("member")).rpartition("/")[2]): each.inputs[
            "role"
        ]
        for each in made.all("gcp:storage/bucketIAMMember:BucketIAMMember")
    }
    assert grants[BUCKET, "personal-worker"] == "roles/storage.objectUser"
    assert grants[BUCKET, "personal-trainer"] == "roles/storage.objectViewer"
    weights = "acme-images-models-us-east5"
    assert grants[weights, "personal-trainer"] == "roles/storage.objectViewer"
    assert (weights, "personal-worker") not in grants


def config_map(made: Any) -> Any:
    """Return the ConfigMap of the worker."""
    return made.object("kubernetes:core/v1:ConfigMap", "personal-worker")


def test_every_image_of_it_comes_from_the_repository_of_the_region(deployed: Any) -> None:
    digest = f"sha256:{'1' * 64}"
    names = [repository_names()[name] for name in resolve(example()).images.needed]
    images = {"repository": "engines", "digests": dict.fromkeys(names, digest)}
    made = deployed(example(images=images))
    url = "us-east5-docker.pkg.dev/acme-inference-images/engines"
    (pod,) = kept_pods(Resource("kubernetes:core/v1:ConfigMap", "", "", config_map(made)))
    assert [body["image"] for _, body in pod.containers()] == [f"{url}/diffusion-tpu@{digest}"]
    (front,) = made.one("gcp:cloudrunv2/service:Service").inputs["template"]["containers"]
    assert front["image"] == f"{url}/personal@{digest}"


def test_the_prompt_is_encoded_in_training_as_the_server_encodes_it(deployed: Any) -> None:
    found = example()
    model = {**found.models["flux-dev"].model_dump(mode="json"), "context": 256}
    training = json.loads(
        config_map(deployed(example(models={"flux-dev": model})))["data"]["settings.json"]
    )["training"]
    assert training["text_tokens"] == 256
    assert training["text_encoder_bits"] == TEXT_ENCODER_BITS == 8


def test_the_times_and_places_of_workers_come_from_the_stack(deployed: Any) -> None:
    given = {"retention_days": 90, "sets_per_worker": 4, "train_seconds": 3600}
    personal = {**example().personal_images.model_dump(mode="json"), **given}
    settings = json.loads(
        config_map(deployed(example(personal_images=personal)))["data"]["settings.json"]
    )
    assert {name: settings[name] for name in ("retention_days", "sets", "train_seconds")} == {
        "retention_days": 90,
        "sets": 4,
        "train_seconds": 3600,
    }


def test_the_worker_is_in_the_namespace_whose_folder_it_shares(deployed: Any) -> None:
    found = config_map(deployed(example()))
    assert found["metadata"]["namespace"] == "jobs-images"
    settings = json.loads(found["data"]["settings.json"])
    assert settings["adapters"] == "flux-dev/live-adapters"
    assert settings["bucket"] == BUCKET
    assert settings["subscription"] != settings["erasures_subscription"]
    assert settings["endpoint"].endswith(":8080")
    assert settings["training"]["folder"] == "/mnt/models/flux-dev"


def test_apis_and_images_of_it_are_needed_only_with_it() -> None:
    with_it, without = example(), example(personal_images=None)
    more = set(resolve(with_it).project.services) - set(resolve(without).project.services)
    assert more == {
        "iamcredentials.googleapis.com",
        "pubsub.googleapis.com",
        "run.googleapis.com",
    }
    assert set(resolve(with_it).images.needed) - set(resolve(without).images.needed) == {"personal"}


def test_the_deploying_identity_can_create_it_and_grant_access_to_it() -> None:
    def roles(platform: Any) -> set[str]:
        return set(deploy_roles(settings_of(resolve(platform), "images", None, None)))

    assert roles(example()) - roles(example(personal_images=None)) == {
        "roles/pubsub.admin",
        "roles/run.admin",
    }


def test_service_and_bucket_are_in_the_cost() -> None:
    parts = [part.what for part in stack_cost(resolve(example())).parts]
    assert "Cloud Storage of personalized images, by what is kept and by operation" in parts
    assert "Cloud Run for personalized images, by request" in parts
