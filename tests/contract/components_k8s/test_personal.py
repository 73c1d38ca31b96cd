"""Personalized images: what the service and the worker are told, and what each may do."""

import json
from typing import Any

import pulumi
import pytest
import yaml

from gke_inference import PersonalFront, PersonalWorker
from tests.unit.personal.world import World
from twin.host.paths import REPOSITORY
from workloads.diffusion.training import Training
from workloads.personal.jobs import objects_of
from workloads.personal.settings import FrontSettings, WorkSettings, read

FRONT: dict[str, Any] = {
    "account_id": "acme-dev-personal",
    "bucket_name": "acme-dev-personal",
    "callback_hosts": ["app.example.com"],
    "callers": ["serviceAccount:app@acme.iam.gserviceaccount.com"],
    "project": "acme",
    "project_number": "123456789012",
    "region": "us-east5",
    "service_name": "acme-dev-personal",
    "worker": "principal://worker",
}
IMAGE = f"us-east5-docker.pkg.dev/acme/engines/diffusion-tpu@sha256:{'a' * 64}"
WORKER: dict[str, Any] = {
    "adapters": "flux-dev/live-adapters",
    "bucket": "acme-dev-personal",
    "callback_secret": "callbacks",
    "endpoint": "http://10.0.0.5",
    "erasures_subscription": "projects/acme/subscriptions/acme-dev-personal-erasures",
    "key_secret": "team",
    "model": "flux-dev",
    "models_bucket": "acme-models",
    "namespace": "jobs-images",
    "queue": "training",
    "service_account": "personal-worker",
    "subscription": "projects/acme/subscriptions/acme-dev-personal",
    "trainer_account": "personal-trainer",
    "trainer_image": IMAGE,
    "training": {
        "folder": '"flux-dev/v1"',
        "prompt": '"a photo of sks person"',
        "rank": "16",
        "size": '"1024x1024"',
        "steps": "500",
        "text_encoder_bits": "8",
        "text_tokens": "256",
    },
    "worker_name": "personal-worker",
}


def front(recorder: Any, **changes: Any) -> None:
    args: Any = {**FRONT, **changes}
    recorder.run(lambda: PersonalFront("front", args).url)


def worker(recorder: Any, **changes: Any) -> WorkSettings:
    args: Any = {**WORKER, **changes}
    recorder.run(lambda: PersonalWorker("worker", args).worker_name)
    content = recorder.one("kubernetes:core/v1:ConfigMap").inputs["data"]["settings.json"]
    return read(WorkSettings, content)


def test_the_service_is_told_what_its_program_reads(recorder: Any) -> None:
    front(recorder, max_images=4, max_open_sets=2)
    service = recorder.one("gcp:cloudrunv2/service:Service").inputs
    (container,) = service["template"]["containers"]
    assert container["args"] == ["front", "-"]
    (variable,) = container["envs"]
    assert variable["name"] == "SETTINGS"
    found = read(FrontSettings, variable["value"])
    assert (found.bucket, found.callback_hosts) == ("acme-dev-personal", ("app.example.com",))
    assert (found.max_images, found.max_photos, found.max_open_sets) == (4, 20, 2)


def test_deletions_have_a_queue_that_sets_do_not_fill(recorder: Any) -> None:
    front(recorder)
    names = {each.inputs["name"] for each in recorder.all("gcp:pubsub/subscription:Subscription")}
    assert {"acme-dev-personal", "acme-dev-personal-erasures"} <= names
    (container,) = recorder.one("gcp:cloudrunv2/service:Service").inputs["template"]["containers"]
    found = read(FrontSettings, container["envs"][0]["value"])
    service = "serviceAccount:acme-dev-personal@acme.iam.gserviceaccount.com"
    published = {
        each.inputs["topic"]
        for each in recorder.all("gcp:pubsub/topicIAMMember:TopicIAMMember")
        if each.inputs["member"] == service
    }
    assert len(published) == 2
    assert published == {found.topic, found.erasures_topic}


def test_the_service_may_sign_only_in_its_own_name(recorder: Any) -> None:
    front(recorder)
    grant = recorder.one("gcp:serviceaccount/iAMMember:IAMMember").inputs
    assert grant["role"] == "roles/iam.serviceAccountTokenCreator"
    account = recorder.one("gcp:serviceaccount/account:Account")
    assert account.inputs["accountId"] == "acme-dev-personal"
    caller = recorder.one("gcp:cloudrunv2/serviceIamMember:ServiceIamMember").inputs
    assert (caller["role"], caller["member"]) == ("roles/run.invoker", FRONT["callers"][0])
    bucket = recorder.one("gcp:storage/bucketIAMMember:BucketIAMMember").inputs
    assert bucket["role"] == "roles/storage.objectUser"


def test_what_is_deleted_from_the_bucket_cannot_be_restored(recorder: Any) -> None:
    front(recorder, retention_days=7)
    bucket = recorder.one("gcp:storage/bucket:Bucket").inputs
    assert bucket["softDeletePolicy"] == {"retentionDurationSeconds": 0}
    expires = {"age": 7, "matchesPrefixes": ["erasures/", "users/"]}
    assert {"action": {"type": "Delete"}, "condition": expires} in bucket["lifecycleRules"]
    assert "versioning" not in bucket
    assert bucket["publicAccessPrevention"] == "enforced"


def test_pictures_images_and_adapters_move_to_colder_classes_and_states_do_not(
    recorder: Any,
) -> None:
    front(recorder, retention_days=400, nearline_after_days=7, archive_after_days=35)
    rules = recorder.one("gcp:storage/bucket:Bucket").inputs["lifecycleRules"]
    moved = [rule for rule in rules if rule["action"]["type"] == "SetStorageClass"]
    assert [(each["action"]["storageClass"], each["condition"]["age"]) for each in moved] == [
        ("NEARLINE", 7),
        ("ARCHIVE", 35),
    ]
    suffixes = [".jpg", ".png", ".safetensors", ".webp"]
    assert all(each["condition"]["matchesSuffixes"] == suffixes for each in moved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"retention_days": 29, "nearline_after_days": 7},
            "must be at least 30, got 29: nearline is billed for 30 days",
        ),
        (
            {"coldline_after_days": 5, "nearline_after_days": 5, "retention_days": 400},
            "must be above 5, the age of the class before it, got 5",
        ),
        ({"callers": ["allUsers"]}, "must begin with group:.*, got 'allUsers'"),
        (
            {"callers": ["allAuthenticatedUsers"]},
            "must begin with group:.*, got 'allAuthenticatedUsers'",
        ),
        ({"max_open_sets": 0}, "must be 1 to 1000, got 0"),
        ({"callers": []}, "must have at least 1 entry, got 0"),
        ({"retention_days": 1}, "must be 2 to 3650, got 1"),
        ({"max_photos": 2}, "must be 3 to 100, got 2"),
    ],
)
def test_a_service_that_cannot_be_is_refused(
    recorder: Any, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(pulumi.InputPropertyError, match=message):
        front(recorder, **change)


def test_the_worker_creates_the_job_that_the_example_shows(recorder: Any, tmp_path: Any) -> None:
    world = World(tmp_path)
    world.add("alice", "one")
    content, job = objects_of(world.state(), worker(recorder))
    training = json.loads(content["data"]["train.json"])
    assert training.pop("images") == "/mnt/images/users/alice/one/pictures"
    assert training.pop("adapter") == "/mnt/shared/flux-dev/live-adapters/alice-one"
    settings = Training(images=str(tmp_path), adapter="x", **training)
    assert (settings.rank, settings.text_tokens, settings.text_encoder_bits) == (16, 256, 8)
    file = REPOSITORY / "docs" / "examples" / "personalized-images" / "train.yaml"
    _, shown = yaml.safe_load_all(file.read_text())
    pod, of_example = job["spec"]["template"]["spec"], shown["spec"]["template"]["spec"]
    assert pod.pop("serviceAccountName") == "personal-trainer"
    assert pod["containers"][0]["image"] == IMAGE
    for spec in (pod, of_example):
        spec["containers"][0].pop("image")
        for volume in spec["volumes"]:
            volume.get("csi", {}).pop("volumeAttributes", None)
            volume.pop("configMap", None)
    assert job["spec"] == shown["spec"]
    labels = job["metadata"]["labels"]
    assert labels == {**shown["metadata"]["labels"], "personal-images/user": "alice"}


def test_the_worker_may_do_nothing_but_create_and_end_jobs(recorder: Any) -> None:
    settings = worker(recorder)
    assert (settings.key_file, settings.sets) == ("/etc/personal-key/key", 16)
    role = recorder.one("kubernetes:rbac.authorization.k8s.io/v1:Role").inputs
    assert [(rule["resources"], rule["verbs"]) for rule in role["rules"]] == [
        (["jobs"], ["create", "delete", "get", "list"]),
        (["configmaps"], ["create", "delete", "list"]),
    ]
    pod = recorder.one("kubernetes:apps/v1:Deployment").inputs["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is True
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert volumes == {"key", "secret", "settings", "shared"}
