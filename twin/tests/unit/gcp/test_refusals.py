"""Google Cloud's refusals in its words, and the order in which resources can be deleted."""

import socket
import threading
import time
from typing import Any

import pytest

from twin.providers.gcp.acknowledgements import Witness
from twin.providers.gcp.resources.project_numbers import learn
from twin.providers.gcp.schema import resource
from twin.tests.unit.gcp.conftest import Cloud, Made, Refused
from twin.wire.peers import connected_ports

ACCOUNT = "gcp:serviceaccount/account:Account"
BUCKET = "gcp:storage/bucket:Bucket"
CLUSTER = "gcp:container/cluster:Cluster"
FIREWALL = "gcp:compute/firewall:Firewall"
MEMBER = "gcp:storage/bucketIAMMember:BucketIAMMember"
NETWORK = "gcp:compute/network:Network"
ON_SUBNET = "gcp:compute/subnetworkIAMMember:SubnetworkIAMMember"
OBJECT = "gcp:storage/bucketObject:BucketObject"
POOL = "gcp:container/nodePool:NodePool"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"


def network(cloud: Cloud, name: str = "n") -> Made:
    return cloud.create(NETWORK, name, {"name": name, "autoCreateSubnetworks": False})


def subnetwork(cloud: Cloud, name: str, cidr: str, **more: Any) -> Made:
    inputs = {"name": name, "network": "n", "region": "us-east5", "ipCidrRange": cidr, **more}
    return cloud.create(SUBNETWORK, name, inputs)


def cluster(cloud: Cloud, **more: Any) -> Made:
    inputs = {
        "name": "c",
        "location": "us-east5",
        "initialNodeCount": 1,
        "removeDefaultNodePool": True,
        **more,
    }
    return cloud.create(CLUSTER, "c", inputs)


def test_what_exists_cannot_be_created_by_another_program(cloud: Cloud) -> None:
    network(cloud)
    with pytest.raises(
        Refused, match=r"ALREADY_EXISTS: creating other: .*Error 409.*alreadyExists"
    ):
        cloud.create(NETWORK, "other", {"name": "n"})


def test_what_an_engine_knows_cannot_be_created_again(cloud: Cloud) -> None:
    made = network(cloud)
    cloud.diff(made, {"name": "n"})
    with pytest.raises(Refused, match="already exists"):
        network(cloud)


def test_a_creation_nobody_heard_of_is_handed_over_to_the_next_run(cloud: Cloud) -> None:
    first = network(cloud)
    second = network(cloud)
    assert (second.id, second.outputs["networkId"]) == (first.id, first.outputs["networkId"])


def test_what_an_engine_was_told_before_it_went_on_cannot_be_created_again(
    cloud: Cloud,
) -> None:
    settle = cloud.world.rules.seconds("cloud.create.interrupted")
    witness = Witness(cloud.world.store, settle=0)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        gone, told = network(cloud, "gone"), network(cloud, "told")
        with socket.create_connection(listener.getsockname()) as engine:
            port = engine.getsockname()[1]
            assert port in connected_ports()
            witness.told(f"ipv4:127.0.0.1:{port}", NETWORK, told.id)
            witness.told("ipv4:127.0.0.1:1", NETWORK, gone.id)
            until = time.monotonic() + 5
            while not _is_known(cloud, told) and time.monotonic() < until:
                time.sleep(0.01)
    assert settle > 0
    with pytest.raises(Refused, match="already exists"):
        network(cloud, "told")
    assert network(cloud, "gone").id == gone.id


def _is_known(cloud: Cloud, made: Made) -> bool:
    record = cloud.world.store.get(NETWORK, made.id)
    return record is not None and record.acknowledged


def test_a_creation_goes_on_when_its_engine_dies(cloud: Cloud, storage: Any) -> None:
    started, release = threading.Event(), threading.Event()
    create_bucket = storage.buckets.setdefault

    def slow(_paths: Any, name: str, _project: str) -> None:
        started.set()
        release.wait(5)
        create_bucket(name, {})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("twin.providers.gcp.effects.gcs.create_bucket", slow)
        engine = threading.Thread(target=_create_and_die, args=(cloud, started))
        engine.start()
        engine.join(5)
        assert not engine.is_alive()
        assert cloud.world.store.all()[0].status == "creating"
        release.set()
        made = cloud.create(BUCKET, "b", {"name": "b", "location": "US"})
    assert made.id == "b"
    assert cloud.world.store.all()[0].status == "ready"
    assert "b" in storage.buckets


def _create_and_die(cloud: Cloud, started: threading.Event) -> None:
    def die() -> None:
        started.wait(5)
        cloud.context.active = False

    threading.Thread(target=die).start()
    with pytest.raises(Refused, match="CANCELLED"):
        cloud.create(BUCKET, "b", {"name": "b", "location": "US"})


def test_a_name_is_free_again_once_its_deletion_is_over(cloud: Cloud, storage: Any) -> None:
    old = cloud.create(BUCKET, "b", {"name": "b", "location": "US"})
    record = cloud.world.store.get(BUCKET, old.id)
    known = resource(BUCKET)
    assert record is not None
    assert known is not None
    started = cloud.provider.lifecycle.delete(known, record)
    assert started is not None
    new = cloud.create(BUCKET, "b2", {"name": "b", "location": "US-EAST5"})
    assert new.outputs["location"] == "US-EAST5"


def test_a_new_daemon_takes_up_what_the_old_one_left(cloud: Cloud, storage: Any) -> None:
    made = cloud.create(BUCKET, "b", {"name": "b", "location": "US"})
    storage.buckets.clear()
    cloud.world.store.set(BUCKET, made.id, status="creating")
    again = Cloud(cloud.paths)
    assert again.provider.lifecycle.resume() == ["b"]
    record = again.world.store.get(BUCKET, "b")
    assert record is not None
    settled = again.provider.lifecycle.settle(record, None)
    assert settled is not None
    assert settled.status == "ready"
    assert "b" in storage.buckets


def test_a_failed_creation_leaves_nothing(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError("disk is full")

    monkeypatch.setattr("twin.providers.gcp.effects.gcs.create_bucket", fail)
    with pytest.raises(Refused, match="INTERNAL: creating b: the twin failed: disk is full"):
        cloud.create(BUCKET, "b", {"name": "b", "location": "US"})
    assert cloud.world.store.all() == []


def test_a_network_is_deleted_after_all_that_uses_it(cloud: Cloud, clusters: list[Any]) -> None:
    net = network(cloud)
    sub = subnetwork(cloud, "s", "10.0.0.0/20")
    wall = cloud.create(
        FIREWALL,
        "f",
        {"name": "f", "network": net.id, "sourceTags": ["a"], "allows": [{"protocol": "tcp"}]},
    )
    made = cluster(
        cloud, network=net.id, subnetwork=sub.outputs["selfLink"], deletionProtection=False
    )
    with pytest.raises(Refused, match=r"being used by .*resourceInUseByAnotherResource"):
        cloud.delete(net)
    with pytest.raises(Refused, match="projects/acme/locations/us-east5/clusters/c"):
        cloud.delete(sub)
    for item in (made, wall, sub, net):
        cloud.delete(item)
    assert cloud.world.store.all() == []


def test_a_protected_cluster_is_not_deleted(cloud: Cloud, clusters: list[Any]) -> None:
    made = cluster(cloud)
    with pytest.raises(Refused, match="deletionProtection is true"):
        cloud.delete(made)
    inputs = {**made.inputs, "deletionProtection": False}
    cloud.update(made, inputs)
    cloud.delete(made)
    assert clusters == []


def test_node_pools_go_with_their_cluster(
    cloud: Cloud, clusters: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twin.providers.gcp.effects.pool_files.wait_ready", lambda *_: None)
    made = cluster(cloud, deletionProtection=False)
    pool = cloud.create(POOL, "p", {"name": "p", "cluster": made.id, "nodeCount": 1})
    cloud.delete(made)
    cloud.delete(pool)
    assert cloud.world.store.all() == []


def test_a_bucket_with_objects_is_deleted_only_by_force(cloud: Cloud, storage: Any) -> None:
    made = cloud.create(BUCKET, "b", {"name": "b", "location": "US"})
    storage.buckets["b"]["weights"] = b"x"
    with pytest.raises(Refused, match=r"Error 409: .*is not empty"):
        cloud.delete(made)
    cloud.update(made, {"name": "b", "location": "US", "forceDestroy": True})
    cloud.delete(made)
    assert storage.buckets == {}


def test_what_pods_wrote_counts_as_objects_and_goes_with_the_bucket(cloud: Cloud) -> None:
    made = cloud.create(BUCKET, "b", {"name": "b", "location": "US"})
    program = cloud.paths.volumes / "buckets" / "b" / "cache" / "program"
    program.parent.mkdir(parents=True)
    program.write_text("compiled")
    with pytest.raises(Refused, match=r"Error 409: .*is not empty"):
        cloud.delete(made)
    cloud.update(made, {"name": "b", "location": "US", "forceDestroy": True})
    cloud.delete(made)
    assert not (cloud.paths.volumes / "buckets" / "b").exists()


def test_deletion_policies_prevent_and_abandon(cloud: Cloud) -> None:
    kept = cloud.create(NETWORK, "a", {"name": "a", "deletionPolicy": "PREVENT"})
    with pytest.raises(Refused, match="deletionPolicy is PREVENT"):
        cloud.delete(kept)
    left = cloud.create(NETWORK, "b", {"name": "b", "deletionPolicy": "ABANDON"})
    cloud.delete(left)
    assert cloud.world.store.get(NETWORK, left.id) is not None


def test_deleting_what_is_gone_is_no_error(cloud: Cloud) -> None:
    made = network(cloud)
    cloud.delete(made)
    cloud.delete(made)


@pytest.mark.parametrize(
    ("token", "inputs", "message"),
    [
        (
            SUBNETWORK,
            {"network": "none", "region": "us-east5", "ipCidrRange": "10.0.0.0/20"},
            r"Error 404: The Network 'none' \(network\) was not found",
        ),
        (POOL, {"cluster": "none", "location": "us-east5", "nodeCount": 1}, "Not found: none"),
        (
            MEMBER,
            {"bucket": "none", "role": "r", "member": "allUsers"},
            "Error 404: The specified bucket does not exist., notFound",
        ),
        (OBJECT, {"bucket": "none", "content": "x"}, "The specified bucket does not exist"),
        (CLUSTER, {"location": "us-eas5", "initialNodeCount": 1}, "did you mean us-east5?"),
        (CLUSTER, {"location": "us-east5", "initialNodeCount": 0}, "must be greater than zero"),
        (CLUSTER, {"location": "us-east5-a", "enableAutopilot": True}, "must be regional"),
        (
            CLUSTER,
            {"location": "us-east5", "initialNodeCount": 1, "nodeLocations": ["us-east1-b"]},
            'Zone "us-east1-b" is not a zone of region "us-east5"',
        ),
        (
            CLUSTER,
            {
                "location": "us-east5",
                "initialNodeCount": 1,
                "workloadIdentityConfig": {"workloadPool": "other.svc.id.goog"},
            },
            "Invalid workload pool",
        ),
        (
            "gcp:compute/address:Address",
            {"region": "us-middle1"},
            "Invalid value for field 'region': 'us-middle1'",
        ),
        (
            "gcp:projects/iAMMember:IAMMember",
            {
                "project": "acme",
                "role": "roles/viewer",
                "member": "serviceAccount:nobody@acme.iam.gserviceaccount.com",
            },
            "Service account nobody@acme.iam.gserviceaccount.com does not exist",
        ),
    ],
)
def test_a_request_google_cannot_fulfil_is_refused(
    cloud: Cloud, token: str, inputs: dict[str, Any], message: str
) -> None:
    with pytest.raises(Refused, match=message):
        cloud.create(token, "x", inputs)


def test_ranges_of_a_network_cannot_overlap(cloud: Cloud) -> None:
    network(cloud)
    pods = [{"rangeName": "pods", "ipCidrRange": "10.4.0.0/14"}]
    subnetwork(cloud, "a", "10.0.0.0/20", secondaryIpRanges=pods)
    with pytest.raises(
        Refused, match=r"10\.5\.0\.0/20 conflicts with existing range 10\.4\.0\.0/14"
    ):
        subnetwork(cloud, "b", "10.5.0.0/20")
    with pytest.raises(Refused, match="of the same subnetwork"):
        subnetwork(
            cloud,
            "c",
            "10.8.0.0/20",
            secondaryIpRanges=[{"rangeName": "pods", "ipCidrRange": "10.8.8.0/24"}],
        )


def test_a_cluster_needs_the_ranges_its_subnetwork_has(cloud: Cloud, clusters: list[Any]) -> None:
    network(cloud)
    pods = [{"rangeName": "pods", "ipCidrRange": "10.4.0.0/14"}]
    subnetwork(cloud, "s", "10.0.0.0/20", secondaryIpRanges=pods)
    ranges = {"clusterSecondaryRangeName": "pods", "servicesSecondaryRangeName": "services"}
    refusal = 'Services secondary range "services" not found in network ".*n", subnetwork "s"'
    with pytest.raises(Refused, match=refusal):
        cluster(cloud, network="n", subnetwork="s", ipAllocationPolicy=ranges)
    with pytest.raises(Refused, match="Subnetwork s is in region us-east5, not in us-east1"):
        cluster(
            cloud,
            network="n",
            subnetwork="projects/acme/regions/us-east5/subnetworks/s",
            location="us-east1",
        )


def test_a_pool_of_an_unknown_machine_type_or_of_autopilot_is_refused(
    cloud: Cloud, clusters: list[Any]
) -> None:
    standard = cluster(cloud)
    pool: dict[str, Any] = {"cluster": standard.id, "nodeCount": 1}
    with pytest.raises(Refused, match="Machine type g2-standart-4 does not exist"):
        cloud.create(POOL, "p", {**pool, "nodeConfig": {"machineType": "g2-standart-4"}})
    autopilot = cloud.create(
        CLUSTER, "a", {"name": "a", "location": "us-east5", "enableAutopilot": True}
    )
    with pytest.raises(Refused, match="Autopilot clusters do not support node pools"):
        cloud.create(POOL, "p", {"cluster": autopilot.id, "nodeCount": 1})


def test_a_workload_pool_exists_from_the_first_cluster_on(
    cloud: Cloud, clusters: list[Any]
) -> None:
    cloud.create(BUCKET, "b", {"name": "b", "location": "US"})
    member = (
        "principal://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/"
        "acme.svc.id.goog/subject/ns/serving/sa/vllm"
    )
    inputs = {"bucket": "b", "role": "roles/storage.objectViewer", "member": member}
    with pytest.raises(Refused, match=r"Identity Pool does not exist \(acme\.svc\.id\.goog\)"):
        cloud.create(MEMBER, "m", inputs)
    cluster(cloud, workloadIdentityConfig={"workloadPool": "acme.svc.id.goog"})
    made = cloud.create(MEMBER, "m", inputs)
    assert made.id == f"b/b/roles/storage.objectViewer/{member}"


def test_a_grant_that_exists_can_be_made_again(cloud: Cloud) -> None:
    cloud.create(BUCKET, "b", {"name": "b", "location": "US"})
    inputs = {"bucket": "b", "role": "roles/storage.objectViewer", "member": "allUsers"}
    first, second = (cloud.create(MEMBER, name, inputs) for name in ("one", "two"))
    assert first.id == second.id


def test_a_key_of_another_project_is_not_looked_for(cloud: Cloud, clusters: list[Any]) -> None:
    key = "projects/keys/locations/us-east5/keyRings/r/cryptoKeys/k"
    assert cluster(cloud, databaseEncryption={"keyName": key, "state": "ENCRYPTED"}).id


@pytest.mark.parametrize("project", ["acme", "host"])
def test_a_cluster_of_a_network_that_is_not_there_is_refused(cloud: Cloud, project: str) -> None:
    refusal = f'Error 400: Project "{project}" has no network named "none"., badRequest'
    with pytest.raises(Refused, match=refusal):
        cluster(cloud, network=f"projects/{project}/global/networks/none")


def test_a_cluster_of_a_subnetwork_that_is_not_in_its_network_is_refused(cloud: Cloud) -> None:
    network(cloud)
    network(cloud, "other")
    subnetwork(cloud, "s", "10.0.0.0/20")
    for name in ("s", "none"):
        path = f"projects/acme/regions/us-east5/subnetworks/{name}"
        refusal = f'Subnetwork "{path}" is not valid for Network "other"'
        with pytest.raises(Refused, match=refusal):
            cluster(cloud, network="projects/acme/global/networks/other", subnetwork=path)


def test_a_cluster_of_a_shared_network_needs_the_grants_of_its_host(
    cloud: Cloud, clusters: list[Any]
) -> None:
    """Each grant is taken out in turn, and all of them let the cluster in."""
    cloud.create(NETWORK, "n", {"name": "n", "project": "host", "autoCreateSubnetworks": False})
    subnet = "projects/host/regions/us-east5/subnetworks/s"
    inputs = {"name": "s", "network": "projects/host/global/networks/n", "region": "us-east5"}
    cloud.create(SUBNETWORK, "s", {**inputs, "project": "host", "ipCidrRange": "10.0.0.0/20"})
    gke = "serviceAccount:service-1@container-engine-robot.iam.gserviceaccount.com"
    on_subnet = {"project": "host", "region": "us-east5", "subnetwork": "s"}
    user = {**on_subnet, "role": "roles/compute.networkUser"}
    grants: dict[str, tuple[str, dict[str, Any]]] = {
        "attached": (
            "gcp:compute/sharedVPCServiceProject:SharedVPCServiceProject",
            {"hostProject": "host", "serviceProject": "acme"},
        ),
        "gke": (ON_SUBNET, {**user, "member": gke}),
        "apis": (
            ON_SUBNET,
            {**user, "member": "serviceAccount:1@cloudservices.gserviceaccount.com"},
        ),
        "agent": (
            "gcp:projects/iAMMember:IAMMember",
            {"project": "host", "role": "roles/container.hostServiceAgentUser", "member": gke},
        ),
    }
    refusal = "Error 403: Google Compute Engine: Required 'compute.networks.get' permission for"
    shared = {"network": "projects/host/global/networks/n", "subnetwork": subnet}
    for name, (token, given) in grants.items():
        with pytest.raises(Refused, match=refusal):
            cluster(cloud, **shared)
        cloud.create(token, name, given)
    assert cluster(cloud, **shared).id
    learn("acme", "2", cloud.world.store)  # the agents above are now those of another project
    with pytest.raises(Refused, match=refusal):
        cluster(cloud, **shared, name="d")


def test_hundreds_of_creations_at_once_lose_nothing(cloud: Cloud) -> None:
    def make(number: int) -> None:
        cloud.create(NETWORK, f"n{number}", {"name": f"n{number}"})

    threads = [threading.Thread(target=make, args=(number,)) for number in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(cloud.world.store.find(NETWORK)) == 60
