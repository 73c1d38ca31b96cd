"""Google's REST APIs on the twin: existing, missing and unknown resources."""

import time
from typing import Any

import pytest

from twin.host.paths import TwinPaths
from twin.providers.gcp.rest import ELSEWHERE, answer
from twin.providers.gcp.server import world_of
from twin.world.capacity import GivenCertificate, StockLine, World
from twin.world.store import Record
from twin.world.tables import Column, GivenTable

PROJECT = "projects/acme"
CLUSTER = f"{PROJECT}/locations/us-central1/clusters/c"


@pytest.fixture
def paths(tmp_path):
    return TwinPaths(tmp_path / "twin")


def add(paths: TwinPaths, token: str, resource_id: str, **outputs: Any) -> None:
    name = resource_id.rpartition("/")[2]
    record = Record(
        token, resource_id, name, "acme", f"urn:{name}", "ready", True, {}, outputs, time.time()
    )
    world_of(paths).store.add(record, [])


def asked(paths: TwinPaths, url: str) -> tuple[int, dict[str, Any]]:
    host, _, path = url.partition("/")
    return answer(paths, 42, host, path)


def test_enabled_apis_are_those_that_a_stack_made(paths):
    listing = f"serviceusage.googleapis.com/v1/{PROJECT}/services"
    assert asked(paths, listing) == (200, {"services": []})
    add(paths, "gcp:projects/service:Service", "acme/dns.googleapis.com")
    name = {"name": "projects/42/services/dns.googleapis.com"}
    assert asked(paths, listing) == (200, {"services": [name]})


def test_a_cluster_has_its_node_pools_with_what_the_api_calls_config(paths):
    url = f"container.googleapis.com/v1/{CLUSTER}"
    assert asked(paths, url)[0] == 404
    add(
        paths, "gcp:container/cluster:Cluster", CLUSTER, resourceLabels={"env": "x"}, project="acme"
    )
    pool = {"nodeConfig": {"machineType": "e2-standard-4"}}
    add(paths, "gcp:container/nodePool:NodePool", f"{CLUSTER}/nodePools/system", **pool)
    assert asked(paths, url) == (
        200,
        {
            "name": CLUSTER,
            "resourceLabels": {"env": "x"},
            "nodePools": [{"config": {"machineType": "e2-standard-4"}}],
        },
    )


def test_lists_of_monitoring_are_those_of_the_project(paths):
    url = f"monitoring.googleapis.com/v3/{PROJECT}/alertPolicies"
    assert asked(paths, url) == (200, {"alertPolicies": []})
    token = "gcp:monitoring/alertPolicy:AlertPolicy"
    add(paths, token, f"{PROJECT}/alertPolicies/1", displayName="a")
    add(paths, token, "projects/other/alertPolicies/2", displayName="b")
    found = {"name": f"{PROJECT}/alertPolicies/1", "displayName": "a"}
    assert asked(paths, url) == (200, {"alertPolicies": [found]})


def test_a_bucket_of_a_stack_has_its_labels_and_objects_are_kept_elsewhere(paths):
    add(paths, "gcp:storage/bucket:Bucket", "models", name="models", labels={"env": "x"})
    start = "storage.googleapis.com/storage/v1/b"
    assert asked(paths, f"{start}/models") == (200, {"name": "models", "labels": {"env": "x"}})
    assert asked(paths, f"{start}/models/o/a")[0] == ELSEWHERE
    assert asked(paths, f"{start}/others")[0] == ELSEWHERE


@pytest.mark.parametrize(
    "url",
    [
        f"cloudresourcemanager.googleapis.com/v1/{PROJECT}:testIamPermissions",
        f"compute.googleapis.com/compute/v1/{PROJECT}/global/images/i/testIamPermissions",
        f"compute.googleapis.com/compute/v1/{PROJECT}/regions/r/advice/capacity",
        f"orgpolicy.googleapis.com/v2/{PROJECT}/policies/p:getEffectivePolicy",
    ],
)
def test_what_the_twin_does_not_model_is_not_known(paths, url):
    status, body = asked(paths, url)
    assert status == 501
    assert body["error"]["message"].startswith("the twin does not keep ")


def test_certificates_and_zones_are_there_by_name_only(paths):
    World(certificates=(GivenCertificate(name="c"),), zones=("z",)).save(paths.capacity_file)
    where = f"certificatemanager.googleapis.com/v1/{PROJECT}/locations/us-central1/certificates"
    zones = f"dns.googleapis.com/dns/v1/{PROJECT}/managedZones"
    assert [asked(paths, f"{where}/{name}")[0] for name in ("c", "other")] == [501, 404]
    assert [asked(paths, f"{zones}/{name}")[0] for name in ("z", "other")] == [501, 404]


GIVEN = World(
    build_repositories=(f"{PROJECT}/locations/l/connections/c/repositories/r",),
    images=(f"{PROJECT}/global/images/i",),
    service_accounts=("a@acme.iam.gserviceaccount.com",),
    secret_versions=(f"{PROJECT}/secrets/s/versions/1",),
    snapshots=(f"{PROJECT}/global/snapshots/s",),
    stock=(
        StockLine(
            zone="us-central1-a",
            accelerator="nvidia-l4",
            provisioning="reservation",
            reservation="r",
            chips=8,
        ),
    ),
)


@pytest.mark.parametrize(
    "url",
    [
        f"compute.googleapis.com/compute/v1/{PROJECT}/global/snapshots/s",
        f"compute.googleapis.com/compute/v1/{PROJECT}/global/images/i",
        f"secretmanager.googleapis.com/v1/{PROJECT}/secrets/s/versions/1",
        f"cloudbuild.googleapis.com/v2/{PROJECT}/locations/l/connections/c",
        f"cloudbuild.googleapis.com/v2/{PROJECT}/locations/l/connections/c/repositories/r",
        f"compute.googleapis.com/compute/v1/{PROJECT}/zones/us-central1-a/reservations/r",
        f"iam.googleapis.com/v1/{PROJECT}/serviceAccounts/a@acme.iam.gserviceaccount.com",
    ],
)
def test_what_the_world_lists_by_name_is_not_known_further_and_the_rest_is_not_there(paths, url):
    GIVEN.save(paths.capacity_file)
    status, body = asked(paths, url)
    assert status == 501
    assert body["error"]["message"].startswith("the twin does not keep ")
    assert asked(paths, f"{url}-other")[0] == 404
    World().save(paths.capacity_file)
    assert asked(paths, url)[0] == 404


def test_a_reservation_that_the_world_counts_has_its_chips(paths):
    line = StockLine(
        zone="us-central1-b",
        accelerator="tpu-v6e",
        provisioning="reservation",
        reservation="v6e",
        chips=16,
    )
    World(default="none", stock=(line,)).save(paths.capacity_file)
    where = f"compute.googleapis.com/compute/v1/{PROJECT}/zones"
    status, body = asked(paths, f"{where}/us-central1-b/reservations/v6e")
    assert (status, body["status"]) == (200, "READY")
    assert body["aggregateReservation"] == {
        "vmFamily": "VM_FAMILY_CLOUD_TPU_LITE_POD_SLICE_CT6E",
        "reservedResources": [{"accelerator": {"acceleratorCount": 16}}],
        "inUseResources": [{"accelerator": {"acceleratorCount": 0}}],
    }
    assert asked(paths, f"{where}/us-central1-a/reservations/v6e")[0] == 404


def test_a_table_of_bigquery_has_the_columns_that_the_world_lists(paths):
    url = "bigquery.googleapis.com/bigquery/v2/projects/acme-data/datasets/answers/tables/rows"
    assert asked(paths, url) == (
        404,
        {"error": {"message": "Dataset acme-data:answers was not found"}},
    )
    column = Column(name="id", type="STRING")
    table = GivenTable(name="acme-data.answers.rows", columns=(column,))
    World(tables=(table,)).save(paths.capacity_file)
    status, found = asked(paths, url)
    assert (status, found["schema"]["fields"]) == (
        200,
        [{"name": "id", "type": "STRING", "mode": "NULLABLE"}],
    )
