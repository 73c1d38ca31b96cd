"""Profiles of Cloud Storage FUSE: what a stack makes of them."""

import json
from dataclasses import replace
from typing import Any

import pytest

from infra.deploy.program import deploy
from infra.estimate.cold_starts import starts
from infra.plan import resolve
from infra.plan.gke_version import needed
from infra.reading.load import parse, read
from infra.stack import Platform
from infra.stack.problems import StackError
from tests.contract.infra.broken_stacks import edited
from tests.contract.infra.cloud import CloudRecorder


def stack(*more: dict[str, Any]) -> Platform:
    """Return the local stack, in which GKE tunes the mounts of the model bucket."""
    edits = [{"at": ["storage"], "value": {"fuse_profile": "serving"}}, *more]
    return parse(json.dumps(edited("local", edits)))


def test_servers_read_the_bucket_through_its_claim(cloud: CloudRecorder) -> None:
    cloud.run(lambda: deploy(stack()))
    (volume,) = [
        each.inputs["spec"]
        for each in cloud.all("kubernetes:core/v1:PersistentVolume")
        if each.inputs["spec"]["storageClassName"] == "gcsfusecsi-serving"
    ]
    assert volume["csi"]["volumeHandle"] == "acme-local-models-us-central1"
    assert volume["claimRef"] == {"name": "model-bucket", "namespace": "models"}
    claims = [
        source["persistentVolumeClaim"]
        for each in cloud.all("kubernetes:apps/v1:Deployment")
        for source in each.inputs["spec"]["template"]["spec"].get("volumes", [])
        if "persistentVolumeClaim" in source
    ]
    # weights and adapters on TPU; adapters on GPU, whose engine streams its weights
    assert claims == [{"claimName": "model-bucket", "readOnly": True}] * 2


ELSEWHERE = "gs://acme-shared/llama-3.1-8b-instruct"
ON_GPU = {"accelerator": "nvidia-l4", "count": 1, "provisioning": "on-demand"}
MODEL = ("models", "llama-3.1-8b")
IN_OTHER_BUCKETS = [{"at": [*MODEL, "weights"], "value": ELSEWHERE}]
STREAMED = [
    {"at": ["capacity", "interactive", "rungs"], "value": [ON_GPU]},
    {"at": [*MODEL, "form"], "value": "single"},
    {"at": [*MODEL, "adapters"], "remove": True},
    {"at": [*MODEL, "replicas"], "value": {"min": 1, "max": 4}},
]


@pytest.mark.parametrize("edits", [IN_OTHER_BUCKETS, STREAMED])
def test_a_profile_of_mounts_that_no_model_has_is_refused(edits: list[dict[str, Any]]) -> None:
    parse(json.dumps(edited("local", edits)))
    rule = r"storage\.fuse_profile must not be set unless a model mounts the model bucket, got"
    with pytest.raises(StackError, match=rule):
        stack(*edits)


def test_weights_in_another_bucket_are_read_as_before() -> None:
    platform = stack()
    model = platform.models["llama-3.1-8b"].model_copy(update={"weights": ELSEWHERE})
    changed = resolve(platform.model_copy(update={"models": {"llama-3.1-8b": model}}))
    untuned = resolve(read("local"))
    assert [each.start for each in starts(changed)] == [each.start for each in starts(untuned)]


def test_a_profile_needs_a_version_that_has_it() -> None:
    region = resolve(stack()).regions["us-central1"]
    alone = replace(region, served=(), capacity={})
    assert needed(alone) == ("1.35.1-gke.1616000", "storage.fuse_profile")
    assert needed(replace(alone, storage=replace(alone.storage, fuse_profile=None))) == (
        "",
        "nothing",
    )


def test_tuned_mounts_read_faster_and_streams_are_as_before() -> None:
    def seconds(platform: Platform) -> dict[str, float]:
        return {each.rung: each.start.seconds for each in starts(resolve(platform))}

    plain, tuned = seconds(read("local")), seconds(stack())
    changed = {rung for rung in plain if tuned[rung] != plain[rung]}
    assert changed == {rung for rung in plain if rung.startswith("tpu")}
    assert all(tuned[rung] < plain[rung] for rung in changed)
