"""Networks, clusters, buckets, repositories and keys that a stack names must exist and fit."""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession

from gke_inference.catalogue.load_balancing import BACKEND_PORTS
from infra.plan import resolve
from infra.reading.load import parse, platform_of
from scripts.prerequisites.apis import permissions_of
from scripts.prerequisites.existing import existing
from scripts.prerequisites.existing_clusters import existing_clusters
from scripts.prerequisites.finding import Finding, Project, State
from scripts.prerequisites.shared_vpc import shared_vpc
from scripts.shared.google_cloud import Cloud, ReadOnly
from scripts.shared.quota_limits import CloudLimits
from tests.unit.bootstrap.fake_google import FakeGoogle, refused
from tests.unit.prerequisites.ready_project import COMPUTE, STORAGE, AnswersForAll

STACK = Path(__file__).parents[3] / "docs/examples/existing-network/Pulumi.existing.yaml"
REGION = "us-central1"
HOST = f"{COMPUTE}/projects/acme-network-host"
NETWORK = f"{HOST}/global/networks/shared"
SUBNETS = f"{HOST}/regions/{REGION}/subnetworks"
SUBNET = f"{SUBNETS}/inference"
GRANTS = f"{SUBNET}/getIamPolicy"
ROLES = "cloudresourcemanager.googleapis.com/v1/projects/acme-network-host:getIamPolicy"
XPN = f"{COMPUTE}/projects/acme-inference-tenant/getXpnHost"
RULES = f"{HOST}/global/firewalls"
BUCKET = f"{STORAGE}/b/acme-weights-us-central1"
PATH = "projects/acme-inference-tenant/locations/us-central1/clusters/shared"
CLUSTER = f"container.googleapis.com/v1/{PATH}"
KEY = "projects/keys/locations/us-central1/keyRings/r/cryptoKeys/k"
REPOSITORY = "projects/acme-images/locations/us/repositories/engines"
SPACE = "gke-1.us-central1.gke.goog/api/v1/namespaces/inference"
GKE = "serviceAccount:service-161803398874@container-engine-robot.iam.gserviceaccount.com"
APIS = "serviceAccount:161803398874@cloudservices.gserviceaccount.com"
LINK = "https://www.googleapis.com/compute/v1/projects/acme-network-host/global/networks/shared"

ANSWERS: dict[str, dict[str, Any]] = {
    NETWORK: {"name": "shared"},
    SUBNET: {
        "network": LINK,
        "privateIpGoogleAccess": True,
        "ipCidrRange": "10.0.0.0/20",
        "secondaryIpRanges": [
            {"rangeName": "inference-pods", "ipCidrRange": "10.8.0.0/14"},
            {"rangeName": "inference-services", "ipCidrRange": "10.12.0.0/20"},
        ],
    },
    SUBNETS: {
        "items": [
            {
                "purpose": "REGIONAL_MANAGED_PROXY",
                "role": "ACTIVE",
                "network": LINK,
                "ipCidrRange": "10.2.0.0/23",
            }
        ]
    },
    RULES: {
        "items": [
            {
                "network": LINK,
                "direction": "INGRESS",
                "allowed": [{"IPProtocol": "tcp"}],
                "sourceRanges": ["35.191.0.0/16", "130.211.0.0/22", "10.2.0.0/16"],
            }
        ]
    },
    XPN: {"name": "acme-network-host"},
    GRANTS: {"bindings": [{"role": "roles/compute.networkUser", "members": [GKE, APIS]}]},
    ROLES: {"bindings": [{"role": "roles/container.hostServiceAgentUser", "members": [GKE]}]},
    BUCKET: {
        "location": "US-CENTRAL1",
        "locationType": "region",
        "iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}},
    },
    CLUSTER: {
        "status": "RUNNING",
        "currentMasterVersion": "1.37.1-gke.100",
        "locations": [f"{REGION}-a", f"{REGION}-b", f"{REGION}-c"],
        "workloadIdentityConfig": {"workloadPool": "acme-inference-tenant.svc.id.goog"},
        "addonsConfig": {"gcsFuseCsiDriverConfig": {"enabled": True}},
        "networkConfig": {
            "datapathProvider": "ADVANCED_DATAPATH",
            "gatewayApiConfig": {"channel": "CHANNEL_STANDARD"},
            "network": "projects/acme-network-host/global/networks/shared",
            "subnetwork": "projects/acme-network-host/regions/us-central1/subnetworks/inference",
        },
        "controlPlaneEndpointsConfig": {
            "dnsEndpointConfig": {"endpoint": "gke-1.us-central1.gke.goog"}
        },
        "monitoringConfig": {"managedPrometheusConfig": {"enabled": True}},
    },
    SPACE: {"kind": "Namespace"},
    f"artifactregistry.googleapis.com/v1/{REPOSITORY}": {"format": "DOCKER"},
    f"cloudkms.googleapis.com/v1/{KEY}": {
        "purpose": "ENCRYPT_DECRYPT",
        "primary": {"state": "ENABLED"},
    },
}
"""What Google says of a host project, a bucket and a cluster that fit."""

Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def google() -> Iterator[FakeGoogle]:
    """Give a Google where everything that the example names is there and fits."""
    fake = FakeGoogle()
    fake.services |= {each.partition("/")[0] for each in ANSWERS}
    fake.resources.update(copy.deepcopy(ANSWERS))
    yield fake
    fake.close()


def existing_cluster(platform: dict[str, Any]) -> None:
    """Name the cluster and its namespace, too, with a repository."""
    platform["existing"]["namespace"] = "inference"
    region = platform["regions"][REGION]
    del region["system_pool"], region["existing"]["subnet"]["pods"]
    del region["existing"]["subnet"]["services"]
    region["existing"] |= {"cluster": PATH, "repository": REPOSITORY}
    region |= {"version": "1.37", "data_key": KEY}
    platform["images"] = {}


def own(platform: dict[str, Any]) -> None:
    """Name the network as one of the own project."""
    network = platform["existing"]["network"]
    platform["existing"]["network"] = network.replace("acme-network-host", platform["project"])
    subnet = platform["regions"][REGION]["existing"]["subnet"]
    subnet["name"] = subnet["name"].replace("acme-network-host", platform["project"])


def global_front(platform: dict[str, Any]) -> None:
    """Put a global load balancer in front of the gateways of the existing network."""
    platform["gateway"] = {
        "certificate": "models",
        "exposure": "external",
        "front": "global",
        "hostname": "models.example.com",
    }
    platform["regions"][REGION]["existing"]["subnet"]["published"] = "published"


def project_of(google: FakeGoogle, change: Change = lambda _: None) -> Project:
    document = platform_of(STACK)
    change(document)
    session: Any = AuthorizedSession(AnonymousCredentials())
    plan = resolve(parse(json.dumps(document)))
    cloud = Cloud(plan.platform.project, ReadOnly(session), f"{google.address}/")
    registry: Any = AnswersForAll()
    limits = lambda: CloudLimits(cloud, list(plan.regions))  # noqa: E731 - one line
    return Project(plan, "existing", cloud, registry, lambda _: frozenset(), limits)


def problems(project: Project) -> list[Finding]:
    found = (*existing(project), *shared_vpc(project), *existing_clusters(project))
    return [each for each in found if each.is_problem]


@pytest.mark.parametrize("change", [lambda _: None, existing_cluster])
def test_what_exists_and_fits_is_met(google: FakeGoogle, change: Change) -> None:
    assert problems(project_of(google, change)) == []


@pytest.mark.parametrize(
    ("ports", "is_met"),
    [
        (["443"], False),
        ([*BACKEND_PORTS[:-1]], False),
        ([*BACKEND_PORTS], True),
        (["8000-9100"], True),
    ],
)
def test_a_rule_of_the_network_has_to_open_every_port_of_the_platform(
    google: FakeGoogle, ports: list[str], is_met: bool
) -> None:
    google.resources[RULES]["items"][0]["allowed"] = [{"IPProtocol": "tcp", "ports": ports}]
    found = [each for each in existing(project_of(google)) if "firewall" in each.says]
    assert [each.state for each in found] == [State.MET if is_met else State.UNSEEN]


@pytest.mark.parametrize(
    ("more", "is_met"),
    [
        ([], True),
        ([{"denied": [{"IPProtocol": "all"}], "priority": 1_000}], False),
        ([{"denied": [{"IPProtocol": "all"}], "priority": 1_001}], True),
        ([{"denied": [{"IPProtocol": "all"}], "destinationRanges": ["10.0.0.0/20"]}], True),
        ([{"denied": [{"IPProtocol": "all"}], "destinationRanges": ["10.9.0.0/16"]}], False),
        ([{"denied": [{"IPProtocol": "all"}], "targetTags": ["bastion"]}], True),
    ],
)
def test_rules_for_ingress_count_in_their_order_and_for_pods_in_their_ranges(
    google: FakeGoogle, more: list[dict[str, Any]], is_met: bool
) -> None:
    google.resources[RULES]["items"] += [{"network": LINK, **each} for each in more]
    (found,) = [each for each in existing(project_of(google)) if "health checks" in each.name]
    assert found.state == (State.MET if is_met else State.UNSEEN)


def test_a_rule_for_machines_with_a_tag_opens_nothing_for_pods(google: FakeGoogle) -> None:
    google.resources[RULES]["items"][0]["targetTags"] = ["web"]
    (found,) = [each for each in existing(project_of(google)) if "health checks" in each.name]
    assert found.state == State.UNSEEN


def leaving(kind: str, priority: int, **more: object) -> dict[str, object]:
    entry = {"IPProtocol": "tcp", "ports": ["443"]} if kind == "allowed" else {"IPProtocol": "all"}
    return {"direction": "EGRESS", "network": LINK, "priority": priority, kind: [entry], **more}


@pytest.mark.parametrize(
    ("rules", "is_met"),
    [
        ([], True),
        ([leaving("denied", 65_000)], False),
        ([leaving("denied", 65_000, disabled=True)], True),
        ([leaving("denied", 65_000, targetTags=["bastion"])], True),
        ([leaving("denied", 65_000, destinationRanges=["10.0.0.0/8"])], True),
        ([leaving("denied", 65_000, sourceRanges=["10.64.0.0/16"])], True),
        ([leaving("denied", 65_000, sourceRanges=["10.0.8.0/24"])], False),
        ([leaving("denied", 65_000), leaving("allowed", 1_000)], True),
        (
            [
                leaving("denied", 65_000),
                leaving("allowed", 1_000, sourceRanges=["10.0.8.0/24"]),
            ],
            False,
        ),
        ([leaving("denied", 1_000), leaving("allowed", 1_000)], False),
        ([leaving("denied", 900), leaving("allowed", 1_000)], False),
        (
            [
                leaving("denied", 65_000),
                leaving("allowed", 1_000, destinationRanges=["199.36.153.4/30"]),
            ],
            True,
        ),
    ],
)
def test_the_rules_of_the_network_have_to_let_nodes_out_to_googles_apis(
    google: FakeGoogle, rules: list[dict[str, object]], is_met: bool
) -> None:
    google.resources[RULES]["items"] += rules
    (found,) = [each for each in existing(project_of(google)) if "Google's APIs" in each.name]
    assert found.state == (State.MET if is_met else State.UNSEEN)


def test_a_global_front_needs_a_network_of_its_own_beside_an_existing_one(
    google: FakeGoogle,
) -> None:
    assert "compute.networks.create" in permissions_of(project_of(google, global_front))
    assert "compute.networks.create" not in permissions_of(project_of(google))


def test_what_does_not_exist_is_missing(google: FakeGoogle) -> None:
    for each in (NETWORK, SUBNET, BUCKET, CLUSTER):
        del google.resources[each]
    found = problems(project_of(google, existing_cluster))
    missing = [each.subject for each in found if each.says == "there is none"]
    assert missing == ["network", "subnet", "bucket", "cluster"]


def test_a_network_of_the_own_project_needs_no_grants(google: FakeGoogle) -> None:
    assert list(shared_vpc(project_of(google, own))) == []


@pytest.mark.parametrize(
    ("url", "change", "subject", "says"),
    [
        (
            SUBNET,
            {"secondaryIpRanges": [{"rangeName": "inference-pods"}]},
            "subnet",
            "has the secondary ranges inference-pods; must have inference-services",
        ),
        (SUBNET, {"network": f"{LINK}-2"}, "subnet", "is in shared-2; must be in shared"),
        (
            SUBNET,
            {"privateIpGoogleAccess": False},
            "subnet",
            "has no Private Google Access; nodes without external addresses need it",
        ),
        (SUBNETS, {"items": []}, "proxy-only subnet", "the network has none there"),
        (
            RULES,
            {"items": []},
            "firewall rule",
            "the rules of the network keep 35.191.0.0/16, 130.211.0.0/22, 10.2.0.0/23 out by TCP on"
            f" {', '.join(BACKEND_PORTS)}; whether a firewall policy does is not looked at",
        ),
        (XPN, {"name": "other"}, "Shared VPC", "is a service project of other; must be of "),
        (BUCKET, {"location": "EUROPE-WEST4"}, "bucket", "is in europe-west4; must be in us-c"),
        (
            BUCKET,
            {"iamConfiguration": {}},
            "bucket",
            "has no uniform bucket-level access; Workload Identity requires it",
        ),
        (CLUSTER, {"status": "ERROR"}, "cluster", "is ERROR; must be RUNNING"),
        (
            CLUSTER,
            {"currentMasterVersion": "1.35.2-gke.1"},
            "cluster",
            "has GKE 1.35.2-gke.1; must",
        ),
        (
            CLUSTER,
            {"locations": [f"{REGION}-a"]},
            "cluster",
            "has no nodes in us-central1-b, us-ce",
        ),
        (CLUSTER, {"workloadIdentityConfig": {}}, "cluster", "has no Workload Identity; must have"),
        (CLUSTER, {"addonsConfig": {}}, "cluster", "has no GCS FUSE driver; must have the add-on"),
        (CLUSTER, {"controlPlaneEndpointsConfig": {}}, "cluster", "has no DNS endpoint; must have"),
        (CLUSTER, {"autopilot": {"enabled": True}}, "cluster", "is autopilot; mode is standard"),
        (
            CLUSTER,
            {"networkConfig": {**ANSWERS[CLUSTER]["networkConfig"], "gatewayApiConfig": {}}},
            "cluster",
            "has no Gateway API; must have CHANNEL_STANDARD",
        ),
        (
            CLUSTER,
            {"networkConfig": {**ANSWERS[CLUSTER]["networkConfig"], "subnetwork": "a/other"}},
            "cluster",
            "is in the subnetwork other; must be in inference",
        ),
        (
            f"cloudkms.googleapis.com/v1/{KEY}",
            {"primary": {"state": "DESTROYED"}},
            "key",
            "has a primary version in state DESTROYED; must be ENABLED",
        ),
        (
            f"artifactregistry.googleapis.com/v1/{REPOSITORY}",
            {"format": "PYTHON"},
            "repository",
            "has the format PYTHON; must be DOCKER",
        ),
    ],
)
def test_what_does_not_fit_is_said(
    google: FakeGoogle, url: str, change: dict[str, Any], subject: str, says: str
) -> None:
    google.resources[url] |= change
    projects = (project_of(google), project_of(google, existing_cluster))
    found = {each.subject: each for project in projects for each in problems(project)}
    assert found[subject].says.startswith(says)


def test_ray_clusters_need_the_add_on_in_a_cluster_that_exists(google: FakeGoogle) -> None:
    def with_ray(platform: dict[str, Any]) -> None:
        existing_cluster(platform)
        capacity = next(iter(platform["capacity"].values()))
        capacity["rungs"] = [
            {
                "accelerator": "nvidia-h100-80gb",
                "count": 8,
                "hosts": 2,
                "network": "tcp",
                "provisioning": "spot",
            }
        ]
        model = next(iter(platform["models"].values()))
        model |= {"spanning": "kuberay", "replicas": {"min": 1, "max": 1}}
        platform["images"] |= {"digests": {"vllm-gpu": f"sha256:{'0' * 64}"}}

    (found,) = problems(project_of(google, with_ray))
    assert (found.subject, found.says) == (
        "cluster",
        "has no Ray operator; must have the add-on RayOperator",
    )
    google.resources[CLUSTER]["addonsConfig"]["rayOperatorConfig"] = {"enabled": True}
    assert problems(project_of(google, with_ray)) == []


def test_nodes_that_are_older_than_their_control_plane_leave_workers_at_zero(
    google: FakeGoogle,
) -> None:
    def with_stream(platform: dict[str, Any]) -> None:
        existing_cluster(platform)
        platform["streams"] = {"in": {"model": "llama-3.1-8b", "results": {"kind": "topic"}}}

    google.resources[CLUSTER]["currentNodeVersion"] = "1.36.4-gke.1"
    assert problems(project_of(google, existing_cluster)) == []
    (found,) = problems(project_of(google, with_stream))
    assert (found.subject, found.says) == (
        "cluster",
        "has nodes of GKE 1.36.4-gke.1; must have 1.37 for workers.min: 0 of stream in",
    )
    google.resources[CLUSTER]["currentNodeVersion"] = "1.37.1-gke.100"
    assert problems(project_of(google, with_stream)) == []


@pytest.mark.parametrize(
    ("storage", "field", "says"),
    [
        (
            {"filestore": {}},
            "gcpFilestoreCsiDriverConfig",
            "has no Filestore driver; must have the add-on GcpFilestoreCsiDriver",
        ),
        (
            {"lustre": {"capacity_gib": 9000}},
            "lustreCsiDriverConfig",
            "has no Managed Lustre driver; must have the add-on LustreCsiDriver",
        ),
    ],
)
def test_shared_folders_need_their_driver_in_a_cluster_that_exists(
    google: FakeGoogle, storage: dict[str, Any], field: str, says: str
) -> None:
    def with_folder(platform: dict[str, Any]) -> None:
        existing_cluster(platform)
        own(platform)
        (place,) = storage
        platform["storage"] = storage
        model = next(iter(platform["models"].values()))
        model["live_adapters"] = {"place": place, "max_rank": 32}

    project = project_of(google, with_folder)
    cluster = next(iter(existing_clusters(project)))
    assert says in cluster.says
    google.resources[CLUSTER]["addonsConfig"][field] = {"enabled": True}
    cluster = next(iter(existing_clusters(project)))
    assert "driver" not in cluster.says


def test_a_key_of_an_archive_is_checked(google: FakeGoogle) -> None:
    def with_archive(platform: dict[str, Any]) -> None:
        archive = {"location": "us-central1", "kms_key": KEY}
        platform.setdefault("storage", {})["archives"] = {"answers": archive}

    assert problems(project_of(google, with_archive)) == []
    del google.resources[f"cloudkms.googleapis.com/v1/{KEY}"]
    (found,) = problems(project_of(google, with_archive))
    assert (found.subject, found.name, found.says) == ("key", KEY, "there is none")


def test_a_role_that_is_missing_has_the_command_that_grants_it(google: FakeGoogle) -> None:
    google.resources[GRANTS] = {"bindings": []}
    google.resources[ROLES] = {"bindings": []}
    found = problems(project_of(google))
    assert [(each.subject, each.state) for each in found] == [("role", State.MISSING)] * 3
    assert found[0].command == (
        "gcloud compute networks subnets add-iam-policy-binding inference"
        " --project=acme-network-host --region=us-central1"
        f" --member={GKE} --role=roles/compute.networkUser"
    )
    assert found[2].command == (
        f"gcloud projects add-iam-policy-binding acme-network-host --member={GKE}"
        " --role=roles/container.hostServiceAgentUser"
    )


def test_a_role_of_the_whole_host_project_is_enough(google: FakeGoogle) -> None:
    google.resources[GRANTS] = {}
    user = {"role": "roles/compute.networkUser", "members": [GKE, APIS]}
    google.resources[ROLES]["bindings"].append(user)
    assert problems(project_of(google)) == []


def test_grants_that_cannot_be_read_are_not_counted_as_met(google: FakeGoogle) -> None:
    for each in (GRANTS, ROLES):
        google.refusals[each] = refused(403, "Permission denied")
    states = [each.state for each in shared_vpc(project_of(google))]
    assert states == [State.MET, State.UNSEEN, State.UNSEEN, State.UNSEEN]


def test_a_namespace_that_is_missing_is_said(google: FakeGoogle) -> None:
    del google.resources[SPACE]
    (found,) = problems(project_of(google, existing_cluster))
    assert (found.subject, found.command) == ("namespace", "kubectl create namespace inference")


def test_nothing_is_met_where_everything_is_refused(google: FakeGoogle) -> None:
    google.services.clear()
    project = project_of(google, existing_cluster)
    found = [*existing(project), *shared_vpc(project), *existing_clusters(project)]
    assert {each.state for each in found} == {State.UNSEEN}
