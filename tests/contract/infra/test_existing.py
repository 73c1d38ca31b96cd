"""A stack that names what exists makes nothing of it, and counts no quota and no cost of it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.estimate.quota_needs import needs
from infra.estimate.stack_cost import stack_cost
from infra.plan import resolve
from infra.reading.load import STACKS, parse, platform_of
from infra.stack import Platform
from tests.contract.infra.cloud import Deployed
from tests.contract.recorder import Records

EXAMPLE = Path(__file__).parents[3] / "docs/examples/existing-network/Pulumi.existing.yaml"
REGION = "us-central1"
CLUSTER = "projects/acme-inference-tenant/locations/us-central1-b/clusters/shared"
SUBNET = "projects/acme-network-host/regions/us-central1/subnetworks/inference"
DIGEST = f"sha256:{'a' * 64}"


def in_a_network() -> Platform:
    """Return the example, whose network and bucket exist."""
    return parse(json.dumps(platform_of(EXAMPLE)))


def in_a_cluster() -> Platform:
    """Return it with a cluster, a namespace and a repository that exist, too."""
    platform = platform_of(EXAMPLE)
    platform["existing"]["namespace"] = "inference"
    platform["images"] = {"digests": {"python": DIGEST}}
    platform["gateway"] = {"exposure": "internal"}
    region = platform["regions"][REGION]
    del region["system_pool"]
    region["version"] = "1.37"
    subnet = region["existing"]["subnet"]
    region["existing"] |= {
        "cluster": CLUSTER,
        "repository": "projects/acme-images/locations/us/repositories/engines",
        "subnet": {key: subnet[key] for key in ("name", "proxies")},
    }
    return parse(json.dumps(platform))


def kinds(records: Records) -> set[str]:
    return set(records.counts())


def grants(records: Records, kind: str) -> set[tuple[str, str]]:
    """Return name and role of the members of one kind."""
    made = [seen for seen in records.registrations if seen.type.endswith(f":{kind}")]
    field = {"BucketIAMMember": "bucket", "RepositoryIamMember": "repository"}[kind]
    return {(seen.inputs[field], seen.inputs["role"]) for seen in made}


def test_a_network_that_exists_is_taken_by_its_path(deployed: Deployed) -> None:
    records = deployed(in_a_network())
    assert not {"Network", "Subnetwork", "Router", "RouterNat", "Firewall"} & kinds(records)
    cluster = records.one("gcp:container/cluster:Cluster").inputs
    assert cluster["network"] == "projects/acme-network-host/global/networks/shared"
    assert cluster["subnetwork"] == SUBNET
    assert cluster["ipAllocationPolicy"] == {
        "clusterSecondaryRangeName": "inference-pods",
        "servicesSecondaryRangeName": "inference-services",
    }


def test_a_bucket_that_exists_gets_readers_and_nothing_else(deployed: Deployed) -> None:
    records = deployed(in_a_network())
    made = records.all("gcp:storage/bucket:Bucket")
    assert [seen.name for seen in made] == [f"{REGION}-caches"]
    assert grants(records, "BucketIAMMember") == {
        ("acme-weights-us-central1", "roles/storage.objectViewer"),
        ("acme-existing-caches-us-central1", "roles/storage.objectUser"),
    }


def test_proxies_of_a_subnet_that_exists_reach_the_pods(deployed: Deployed) -> None:
    engines = deployed(in_a_network()).named(f"{REGION}-namespace-engines").inputs
    sources = [
        peer.get("ipBlock", {}).get("cidr") for peer in engines["spec"]["ingress"][0]["from"]
    ]
    assert "10.2.0.0/23" in sources


def test_a_cluster_that_exists_is_read_and_gets_no_pool_of_ours(deployed: Deployed) -> None:
    records = deployed(in_a_cluster())
    assert records.one("gcp:container/cluster:Cluster").inputs == {}
    assert not {"InferenceCluster", "NodePool", "Namespace", "Repository"} & kinds(records)
    account = records.one("gcp:serviceaccount/account:Account").inputs
    assert account["accountId"] == "acme-existing-us-central1"


def test_objects_of_others_in_a_cluster_that_exists_are_not_taken_over(
    deployed: Deployed,
) -> None:
    upserts = {
        name: deployed(platform).one("pulumi:providers:kubernetes").inputs["upsertExistingObjects"]
        for name, platform in (("made", in_a_network()), ("existing", in_a_cluster()))
    }
    # inputs of a provider are JSON
    assert upserts == {"made": "true", "existing": "false"}


def test_everything_of_a_platform_is_in_the_namespace_that_exists(deployed: Deployed) -> None:
    records = deployed(in_a_cluster())
    objects: list[Any] = [
        seen.inputs["metadata"]
        for seen in records.registrations
        if seen.type.startswith("kubernetes:")
    ]
    assert {each.get("namespace") for each in objects} == {None, "inference"}
    policies = [seen for seen in records.registrations if seen.type.endswith(":NetworkPolicy")]
    assert policies
    assert all(seen.inputs["spec"]["podSelector"] for seen in policies)  # none selects every pod


def test_nodes_pull_from_a_repository_of_another_project(deployed: Deployed) -> None:
    platform = in_a_cluster()
    assert grants(deployed(platform), "RepositoryIamMember") == {
        ("engines", "roles/artifactregistry.reader")
    }
    assert (
        resolve(platform).regions[REGION].images.repository
        == "us-docker.pkg.dev/acme-images/engines"
    )


def test_an_internal_gateway_has_its_address_in_the_subnet_that_exists(
    deployed: Deployed,
) -> None:
    address = deployed(in_a_cluster()).one("gcp:compute/address:Address").inputs
    assert address["subnetwork"] == SUBNET


@pytest.mark.parametrize(
    ("platform", "absent"),
    [
        (in_a_network, {"NETWORKS", "SUBNETWORKS", "ROUTERS", "FIREWALLS"}),
        (in_a_cluster, {"NETWORKS", "SUBNETWORKS", "ROUTERS", "FIREWALLS", "CPUS"}),
    ],
)
def test_no_quota_is_asked_for_what_exists(platform: Any, absent: set[str]) -> None:
    asked = {need.metric.name for need in needs(resolve(platform()))}
    assert not asked & absent
    assert "INSTANCES" in asked


def test_rules_that_gke_makes_in_a_network_of_the_own_project_are_asked_for() -> None:
    text = json.dumps(platform_of(EXAMPLE)).replace("acme-network-host", "acme-inference-tenant")
    asked = {need.metric.name for need in needs(resolve(parse(text)))}
    assert "FIREWALLS" in asked
    assert "NETWORKS" not in asked


def test_system_nodes_of_a_cluster_that_exists_are_not_counted() -> None:
    who = {part.who for need in needs(resolve(in_a_cluster())) for part in need.parts}
    assert not [each for each in who if each.startswith("system nodes")]


@pytest.mark.parametrize(
    ("platform", "absent"),
    [
        (in_a_network, {"NAT gateway", "NAT address"}),
        (in_a_cluster, {"NAT gateway", "NAT address", "management fee", "system nodes"}),
    ],
)
def test_what_exists_is_not_in_the_cost(platform: Any, absent: set[str]) -> None:
    costed = {" ".join(part.what.split()[:2]) for part in stack_cost(resolve(platform())).parts}
    assert not costed & absent
    assert "weights in" in costed
    if "management fee" not in absent:
        assert "management fee" in costed


def test_the_page_about_what_exists_shows_a_usable_stack() -> None:
    page = (Path(__file__).parents[3] / "docs" / "existing.md").read_text()
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    shown: dict[str, Any] = yaml.load(block, yaml.CSafeLoader)["gke-inference:platform"]
    platform = {**platform_of(STACKS / "Pulumi.local.yaml"), **shown, "images": {}}
    platform["project"] = "acme-inference"
    platform["models"]["llama-3.1-8b"]["replicas"]["standby"] = 1
    assert parse(json.dumps(platform)).existing.namespace == "inference"
