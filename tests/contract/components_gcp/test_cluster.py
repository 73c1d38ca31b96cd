import json
from typing import Any

import pulumi
import pytest

from gke_inference import InferenceCluster
from gke_inference.base.kubeconfig import kubeconfig

CLUSTER = "gcp:container/cluster:Cluster"
POOL = "gcp:container/nodePool:NodePool"
ARGS = {
    "cluster_name": "acme-prod-us-east5",
    "location": "us-east5",
    "mode": "standard",
    "network": "projects/acme/global/networks/acme-prod",
    "pods_range": "pods",
    "project": "acme",
    "services_range": "services",
    "subnetwork": "acme-prod-us-east5-nodes",
}


def made(args: Any) -> InferenceCluster:
    return InferenceCluster("east", args)


def run(recorder, **change):
    def program():
        cluster = made({**ARGS, **change})
        return pulumi.Output.all(
            name=cluster.cluster_name,
            account=cluster.node_service_account,
            pool=cluster.workload_pool,
            location=cluster.location,
        )

    return recorder.run(program)


def refused(recorder, path, words, **change):
    with pytest.raises(pulumi.InputPropertyError) as error:
        run(recorder, **change)
    assert error.value.property_path == path
    assert words in error.value.reason
    assert recorder.all(CLUSTER) == []


def test_a_cluster_comes_with_its_node_account_and_system_pool(recorder):
    found = run(recorder)
    assert recorder.counts() == {
        "InferenceCluster": 1,
        "Cluster": 1,
        "NodePool": 1,
        "Account": 1,
        "IAMMember": 2,
    }
    assert found == {
        "name": "acme-prod-us-east5",
        "account": "acme-prod-us-east5-nodes@acme.iam.gserviceaccount.com",
        "pool": "acme.svc.id.goog",
        "location": "us-east5",
    }


def test_the_cluster_is_private_and_answers_on_its_dns_name_only(recorder):
    run(recorder)
    inputs = recorder.one(CLUSTER).inputs
    assert inputs["privateClusterConfig"] == {"enablePrivateNodes": True}
    assert inputs["controlPlaneEndpointsConfig"] == {
        "dnsEndpointConfig": {"allowExternalTraffic": True},
        "ipEndpointsConfig": {"enabled": False},
    }
    assert "masterAuthorizedNetworksConfig" not in inputs


def test_the_cluster_is_hardened(recorder):
    run(recorder)
    inputs = recorder.one(CLUSTER).inputs
    assert inputs["deletionProtection"] is True
    assert inputs["enableShieldedNodes"] is True
    assert inputs["enableIntranodeVisibility"] is True
    assert inputs["datapathProvider"] == "ADVANCED_DATAPATH"
    assert inputs["workloadIdentityConfig"] == {"workloadPool": "acme.svc.id.goog"}
    assert inputs["rbacBindingConfig"] == {
        "enableInsecureBindingSystemAuthenticated": False,
        "enableInsecureBindingSystemUnauthenticated": False,
    }
    assert inputs["securityPostureConfig"] == {"mode": "BASIC"}
    assert inputs["nodePoolDefaults"]["nodeConfigDefaults"] == {
        "gcfsConfig": {"enabled": True},
        "insecureKubeletReadonlyPortEnabled": "FALSE",
    }
    assert inputs["releaseChannel"] == {"channel": "REGULAR"}


def test_the_pool_that_is_removed_at_once_has_the_account_of_the_other_nodes(recorder):
    run(recorder)
    first = recorder.one(CLUSTER).inputs["nodeConfig"]
    assert first["serviceAccount"] == "acme-prod-us-east5-nodes@acme.iam.gserviceaccount.com"
    assert first["shieldedInstanceConfig"]["enableSecureBoot"] is True
    assert first["workloadMetadataConfig"] == {"mode": "GKE_METADATA"}


def test_the_cluster_is_ready_for_gateways_weights_and_fast_scaling(recorder):
    run(recorder)
    inputs = recorder.one(CLUSTER).inputs
    assert inputs["gatewayApiConfig"] == {"channel": "CHANNEL_STANDARD"}
    assert inputs["addonsConfig"] == {
        "gcePersistentDiskCsiDriverConfig": {"enabled": True},
        "gcsFuseCsiDriverConfig": {"enabled": True},
        "horizontalPodAutoscaling": {"disabled": False},
        "httpLoadBalancing": {"disabled": False},
    }
    assert inputs["podAutoscaling"] == {"hpaProfile": "PERFORMANCE"}
    assert inputs["costManagementConfig"] == {"enabled": True}


def test_metrics_are_collected_once_with_the_phase_of_pods_among_them(recorder):
    run(recorder)
    monitoring = recorder.one(CLUSTER).inputs["monitoringConfig"]
    assert monitoring["managedPrometheus"] == {
        "autoMonitoringConfig": {"scope": "NONE"},
        "enabled": True,
    }
    assert {"POD", "DCGM", "SYSTEM_COMPONENTS", "HPA"} <= set(monitoring["enableComponents"])


def test_compute_classes_create_pools_so_auto_provisioning_stays_off(recorder):
    run(recorder)
    scaling = recorder.one(CLUSTER).inputs["clusterAutoscaling"]
    assert scaling["autoscalingProfile"] == "OPTIMIZE_UTILIZATION"
    assert scaling["enabled"] is False
    assert "resourceLimits" not in scaling


def test_pools_of_classes_have_defaults_although_auto_provisioning_is_off(recorder):
    run(recorder)
    defaults = recorder.one(CLUSTER).inputs["clusterAutoscaling"]["autoProvisioningDefaults"]
    assert defaults["upgradeSettings"] == {
        "maxSurge": 0,
        "maxUnavailable": 1,
        "strategy": "SURGE",
    }
    assert defaults["diskType"] == "pd-balanced"
    assert defaults["shieldedInstanceConfig"]["enableSecureBoot"] is True


def test_auto_provisioning_has_limits_and_safe_nodes(recorder):
    run(recorder, auto_provisioning_limits={"cpu": 1000.0, "nvidia-l4": 16})
    scaling = recorder.one(CLUSTER).inputs["clusterAutoscaling"]
    assert scaling["enabled"] is True
    assert scaling["resourceLimits"] == [
        {"maximum": 1000, "minimum": 0, "resourceType": "cpu"},
        {"maximum": 16, "minimum": 0, "resourceType": "nvidia-l4"},
    ]
    defaults = scaling["autoProvisioningDefaults"]
    assert defaults["shieldedInstanceConfig"]["enableSecureBoot"] is True
    assert defaults["diskType"] == "pd-balanced"


def test_nodes_may_pull_images_and_report_and_nothing_else(recorder):
    run(recorder)
    grants = recorder.all("gcp:projects/iAMMember:IAMMember")
    assert sorted(grant.inputs["role"] for grant in grants) == [
        "roles/artifactregistry.reader",
        "roles/container.defaultNodeServiceAccount",
    ]


def test_the_system_pool_is_shielded_and_scales_over_its_zones(recorder):
    run(recorder, system_pool={"min_nodes": 2.0, "max_nodes": 8, "machine_type": "n4-standard-8"})
    pool = recorder.one(POOL)
    assert pool.name == "east-system"
    assert pool.inputs["name"] == "system"
    assert pool.inputs["autoscaling"] == {
        "locationPolicy": "BALANCED",
        "totalMaxNodeCount": 8,
        "totalMinNodeCount": 2,
    }
    config = pool.inputs["nodeConfig"]
    assert (config["machineType"], config["diskType"]) == ("n4-standard-8", "hyperdisk-balanced")
    assert config["shieldedInstanceConfig"] == {
        "enableIntegrityMonitoring": True,
        "enableSecureBoot": True,
    }
    assert config["workloadMetadataConfig"] == {"mode": "GKE_METADATA"}
    assert pool.inputs["networkConfig"] == {"enablePrivateNodes": True}
    assert pool.ignored == ("initialNodeCount", "nodeConfig.resourceLabels")


def test_system_pools_of_other_families_are_empty_until_they_are_needed(recorder):
    run(recorder, system_pool={"fallback": ["n2-standard-4", "n4-standard-4"], "min_nodes": 2})
    pools = {pool.name: pool.inputs for pool in recorder.all(POOL)}
    assert {pool["name"] for pool in pools.values()} == {
        "system",
        "system-n2-standard-4",
        "system-n4-standard-4",
    }
    other = pools["east-system-n4-standard-4"]
    assert other["initialNodeCount"] == 0
    assert other["autoscaling"]["totalMinNodeCount"] == 0
    assert other["autoscaling"]["totalMaxNodeCount"] == 6
    assert other["nodeConfig"]["diskType"] == "hyperdisk-balanced"
    assert pools["east-system"]["autoscaling"]["totalMinNodeCount"] == 2


def test_a_cluster_can_ask_for_a_version_and_leave_its_nodes_alone(recorder):
    run(recorder, min_version="1.36", hold_upgrades=True)
    inputs = recorder.one(CLUSTER).inputs
    assert inputs["minMasterVersion"] == "1.36"
    assert inputs["maintenancePolicy"]["maintenanceExclusions"] == [
        {
            "exclusionName": "scarce-nodes",
            "exclusionOptions": {
                "endTimeBehavior": "UNTIL_END_OF_SUPPORT",
                "scope": "NO_MINOR_OR_NODE_UPGRADES",
            },
            "startTime": "2026-11-22T00:00:00Z",
        }
    ]


def test_what_gke_reports_of_its_pools_changes_nothing(recorder):
    run(recorder)
    cluster = recorder.one(CLUSTER)
    assert cluster.ignored == ("initialNodeCount", "nodeConfig", "nodePools")
    assert cluster.inputs["removeDefaultNodePool"] is True
    assert cluster.inputs["initialNodeCount"] == 1


AUTOPILOT_REFUSES = (
    "removeDefaultNodePool",
    "initialNodeCount",
    "enableIntranodeVisibility",
    "enableShieldedNodes",
    "datapathProvider",
    "nodePoolDefaults",
)


def test_autopilot_is_told_nothing_it_decides_itself(recorder):
    run(recorder, mode="autopilot")
    inputs = recorder.one(CLUSTER).inputs
    assert inputs["enableAutopilot"] is True
    assert [name for name in AUTOPILOT_REFUSES if name in inputs] == []
    assert recorder.all(POOL) == []
    assert set(inputs["clusterAutoscaling"]) == {"autoProvisioningDefaults"}


def test_a_standard_cluster_does_not_mention_autopilot(recorder):
    run(recorder)
    assert "enableAutopilot" not in recorder.one(CLUSTER).inputs


def test_a_zonal_cluster_does_not_repeat_its_own_zone(recorder):
    run(recorder, location="us-east5-a", node_zones=["us-east5-a", "us-east5-c"])
    inputs = recorder.one(CLUSTER).inputs
    assert inputs["location"] == "us-east5-a"
    assert inputs["nodeLocations"] == ["us-east5-c"]


def test_nodes_can_be_kept_to_zones(recorder):
    run(recorder, node_zones=["us-east5-b", "us-east5-a"])
    assert recorder.one(CLUSTER).inputs["nodeLocations"] == ["us-east5-a", "us-east5-b"]


def test_what_is_dangerous_happens_when_it_is_asked_for(recorder):
    run(
        recorder,
        authorized_networks={"office": "203.0.113.0/24"},
        deletion_protection=False,
        public_nodes=True,
        control_plane_from_internet=False,
    )
    inputs = recorder.one(CLUSTER).inputs
    assert inputs["deletionProtection"] is False
    assert inputs["privateClusterConfig"] == {"enablePrivateNodes": False}
    assert inputs["controlPlaneEndpointsConfig"] == {
        "dnsEndpointConfig": {"allowExternalTraffic": False},
        "ipEndpointsConfig": {"enabled": True},
    }
    assert inputs["masterAuthorizedNetworksConfig"] == {
        "cidrBlocks": [{"cidrBlock": "203.0.113.0/24", "displayName": "office"}],
        "gcpPublicCidrsAccessEnabled": False,
    }


def test_a_key_encrypts_kubernetes_secrets(recorder):
    run(recorder, kms_key="projects/acme/locations/us-east5/keyRings/r/cryptoKeys/k")
    assert recorder.one(CLUSTER).inputs["databaseEncryption"]["state"] == "ENCRYPTED"


def test_upgrades_keep_to_their_window(recorder):
    run(recorder, maintenance={"days": ["TU", "WE", "TH"], "hours": 4.0, "start_hour": 9})
    assert recorder.one(CLUSTER).inputs["maintenancePolicy"] == {
        "recurringMaintenanceWindow": {
            "recurrence": "FREQ=WEEKLY;BYDAY=TU,WE,TH",
            "windowDuration": "14400s",
            "windowStartTime": {"hours": 9, "minutes": 0, "seconds": 0},
        }
    }


REFUSED = {
    "a mode that does not exist": ({"mode": "serverless"}, "mode", "must be one of standard"),
    "a version that is none": (
        {"min_version": "newest"},
        "minVersion",
        "must be a version of GKE such as 1.36 or 1.36.4-gke.1391002, got 'newest'",
    ),
    "a boot disk that the machine type does not have": (
        {"system_pool": {"machine_type": "c4-standard-8", "boot_disk_type": "pd-balanced"}},
        "systemPool.bootDiskType",
        "must be a boot disk type of c4-standard-8 (hyperdisk-balanced), got 'pd-balanced'",
    ),
    "a fallback to the same machines": (
        {"system_pool": {"fallback": ["e2-standard-4"]}},
        "systemPool.fallback",
        "must list distinct machine types that differ from machine_type (e2-standard-4), "
        "got e2-standard-4",
    ),
    "a channel that does not exist": (
        {"release_channel": "daily"},
        "releaseChannel",
        "got 'daily'",
    ),
    "a name with a capital": ({"cluster_name": "Prod"}, "clusterName", "lowercase letters"),
    "a name that is too long": ({"cluster_name": "c" * 41}, "clusterName", "1 to 40 characters"),
    "a name too long for its account": (
        {"cluster_name": "acme-prod-northamerica-north"},
        "clusterName",
        "give 'nodeAccountId'",
    ),
    "an account id that is too long": (
        {"node_account_id": "n" * 31},
        "nodeAccountId",
        "6 to 30 characters",
    ),
    "a location that is none": ({"location": "mars"}, "location", "must be a region or a zone"),
    "a zonal autopilot cluster": (
        {"location": "us-east5-a", "mode": "autopilot"},
        "location",
        "must be a region in autopilot mode",
    ),
    "a system pool in autopilot": (
        {"mode": "autopilot", "system_pool": {}},
        "systemPool",
        "must not be set when mode is autopilot",
    ),
    "auto-provisioning in autopilot": (
        {"mode": "autopilot", "auto_provisioning_limits": {"cpu": 1}},
        "autoProvisioningLimits",
        "must not be set when mode is autopilot",
    ),
    "node zones of another region": (
        {"node_zones": ["us-east4-a"]},
        "nodeZones",
        "must be zones of us-east5, got 'us-east4-a'",
    ),
    "a system pool without nodes": (
        {"system_pool": {"min_nodes": 0}},
        "systemPool.minNodes",
        "must be 1 to 100, got 0",
    ),
    "a system pool with its limits swapped": (
        {"system_pool": {"min_nodes": 4, "max_nodes": 2}},
        "systemPool.minNodes",
        "must be at most max_nodes (2), got 4",
    ),
    "a limit of nothing": (
        {"auto_provisioning_limits": {"cpu": 0}},
        "autoProvisioningLimits.cpu",
        "must be more than 0, got 0",
    ),
    "a day that does not exist": (
        {"maintenance": {"days": ["XX"], "hours": 8, "start_hour": 2}},
        "maintenance.days[0]",
        "must be one of MO, TU, WE, TH, FR, SA, SU, got 'XX'",
    ),
    "a window that is too short": (
        {"maintenance": {"days": ["SA"], "hours": 3, "start_hour": 2}},
        "maintenance.hours",
        "must be 4 to 24, got 3",
    ),
    "too little time for upgrades": (
        {"maintenance": {"days": ["SA", "SU"], "hours": 4, "start_hour": 2}},
        "maintenance",
        "must leave GKE 48 hours in 32 days, got 32",
    ),
    "a label with a capital": ({"labels": {"Team": "x"}}, "labels", "got 'Team': 'x'"),
}


@pytest.mark.parametrize(("change", "path", "words"), REFUSED.values(), ids=REFUSED)
def test_a_broken_rule_is_refused(recorder, change, path, words):
    refused(recorder, path, words, **change)


def test_a_long_cluster_name_takes_an_account_id_of_its_own(recorder):
    found = run(recorder, cluster_name="acme-prod-northamerica-north", node_account_id="acme-nodes")
    assert found["account"] == "acme-nodes@acme.iam.gserviceaccount.com"


def test_children_belong_to_the_cluster_component(recorder):
    run(recorder)
    for seen in recorder.registrations:
        if seen.type.startswith("gcp:"):
            assert seen.parent.endswith("gke-inference:index:InferenceCluster::east")


def test_the_kubeconfig_signs_in_as_the_caller_and_holds_no_secret():
    document = json.loads(kubeconfig("prod", "gke-abc.us-east5.gke.goog"))
    assert document["clusters"] == [
        {"cluster": {"server": "https://gke-abc.us-east5.gke.goog"}, "name": "prod"}
    ]
    user = document["users"][0]["user"]
    assert set(user) == {"exec"}
    assert user["exec"]["command"] == "gke-gcloud-auth-plugin"
    assert document["current-context"] == "prod"


def test_the_endpoint_and_kubeconfig_come_from_the_dns_name_gke_gives(recorder):
    recorder.outputs[CLUSTER] = {
        "controlPlaneEndpointsConfig": {
            "dnsEndpointConfig": {"endpoint": "gke-abc.us-east5.gke.goog"}
        }
    }

    def program():
        cluster = made(ARGS)
        return pulumi.Output.all(cluster.endpoint, cluster.kubeconfig)

    endpoint, config = recorder.run(program)
    assert endpoint == "gke-abc.us-east5.gke.goog"
    assert json.loads(config)["clusters"][0]["name"] == "acme-prod-us-east5"
