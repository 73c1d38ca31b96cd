"""Components that take what exists: it is read or named, and never changed."""

import json
from typing import Any

import pulumi
import pytest

from gke_inference import EngineRepository, ExistingCluster

CLUSTER = "projects/acme/locations/us-east5/clusters/shared"


def test_a_cluster_that_exists_is_read_and_reached_on_its_dns_name(recorder):
    config = recorder.run(lambda: ExistingCluster("shared", {"cluster": CLUSTER}).kubeconfig)
    servers = [each["cluster"]["server"] for each in json.loads(config)["clusters"]]
    assert servers == ["https://gke-test.us-east5.gke.goog"]
    assert recorder.one("gcp:container/cluster:Cluster").inputs == {}


def test_nodes_that_are_added_to_it_have_an_account_with_two_roles(recorder):
    email = recorder.run(
        lambda: ExistingCluster("shared", {"cluster": CLUSTER}).node_service_account
    )
    assert email == "shared-nodes@acme.iam.gserviceaccount.com"
    roles = {seen.inputs["role"] for seen in recorder.all("gcp:projects/iAMMember:IAMMember")}
    assert roles == {
        "roles/artifactregistry.reader",
        "roles/container.defaultNodeServiceAccount",
    }


def test_a_cluster_by_its_name_alone_is_refused(recorder):
    with pytest.raises(pulumi.InputPropertyError, match="clusters/NAME, got 'shared'"):
        recorder.run(lambda: ExistingCluster("shared", {"cluster": "shared"}))


def test_a_cluster_with_a_long_name_asks_for_the_name_of_its_account(recorder):
    path = f"projects/acme/locations/us-east5/clusters/{'c' * 30}"
    with pytest.raises(pulumi.InputPropertyError, match="give 'nodeAccountId'"):
        recorder.run(lambda: ExistingCluster("shared", {"cluster": path}))


def test_a_repository_that_exists_gets_members_only(recorder):
    members: Any = {"readers": ["serviceAccount:nodes"], "writers": ["serviceAccount:builds"]}
    args: Any = {"existing": True, "location": "us", "project": "acme", "repository_id": "engines"}
    path = recorder.run(lambda: EngineRepository("engines", args | members).repository_id)
    assert path == "projects/acme/locations/us/repositories/engines"
    made = recorder.all("gcp:artifactregistry/repositoryIamMember:RepositoryIamMember")
    assert {(seen.inputs["member"], seen.inputs["role"]) for seen in made} == {
        ("serviceAccount:nodes", "roles/artifactregistry.reader"),
        ("serviceAccount:builds", "roles/artifactregistry.writer"),
    }
    assert recorder.all("gcp:artifactregistry/repository:Repository") == []


@pytest.mark.parametrize(
    ("field", "name", "value"),
    [
        ("kms_key", "kmsKey", "k"),
        ("labels", "labels", {"a": "b"}),
        ("untagged_days", "untagged", 5),
    ],
)
def test_settings_of_a_repository_that_exists_are_refused(recorder, field, name, value):
    args: Any = {"existing": True, "location": "us", "project": "acme", "repository_id": "engines"}
    with pytest.raises(pulumi.InputPropertyError, match=f"{name}.*must not be set when"):
        recorder.run(lambda: EngineRepository("engines", args | {field: value}))
