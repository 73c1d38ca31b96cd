"""Network policies of a stack, checked against its pods and ports."""

import json
from typing import Any

import pytest

from infra.deploy.ingress import ingress_args
from infra.plan.names import NAMESPACE, object_name
from infra.reading.load import parse, read
from infra.stack import ClusterMode, Platform
from tests.contract.infra.broken_stacks import edited
from tests.contract.infra.cloud import Deployed
from tests.contract.infra.resolved import region_of
from tests.contract.infra.test_disaggregation import MODEL, OTHERS, first_region
from tests.contract.infra.test_disaggregation import platform as disaggregated
from tests.contract.recorder import Registration


def policies(registrations: list[Registration]) -> dict[str, Any]:
    return {
        seen.name: seen.inputs["spec"]
        for seen in registrations
        if seen.type.endswith(":NetworkPolicy")
    }


def open_ports(spec: dict[str, Any]) -> set[int]:
    return {port["port"] for rule in spec.get("ingress", []) for port in rule.get("ports", [])}


def serving_pods(registrations: list[Registration]) -> list[dict[str, Any]]:
    """Return the pod templates of the serving namespace."""
    return [
        seen.inputs["spec"]["template"]
        for seen in registrations
        if seen.type.endswith(":Deployment") and seen.inputs["metadata"]["namespace"] == NAMESPACE
    ]


def test_every_port_a_pod_serves_on_is_open_and_no_other(deployed: Deployed) -> None:
    registrations = deployed(read("local")).registrations
    found = policies(registrations)
    pods = serving_pods(registrations)
    assert pods
    for template in pods:
        labels: dict[str, str] = template["metadata"]["labels"]
        declared = {
            port["containerPort"]
            for container in template["spec"]["containers"]
            if container["name"] != "adapter-loader"  # the kubelet alone asks it
            for port in container.get("ports", [])
            if not port["name"].startswith("health-")  # nor a launcher's
        }
        allowed: set[int] = set()
        for spec in found.values():
            if spec["podSelector"].get("matchLabels", {}).items() <= labels.items():
                allowed |= open_ports(spec)
        assert allowed == declared, labels


def test_each_region_lets_in_its_own_proxies_and_collectors() -> None:
    staging = read("staging")
    seen = {region: ingress_args(region_of(staging, region)) for region in staging.regions}
    for region, settings in staging.regions.items():
        is_autopilot = settings.mode is ClusterMode.AUTOPILOT
        assert settings.ranges is not None
        assert seen[region]["proxies_cidr"] == settings.ranges.proxies
        expected = "gke-gmp-system" if is_autopilot else "gmp-system"
        assert seen[region].get("metrics_namespace") == expected
    assert len({settings.mode for settings in staging.regions.values()}) == 2


def test_only_models_whose_replicas_need_it_are_connected() -> None:
    apart = disaggregated()
    args = ingress_args(region_of(apart, first_region(apart)))
    assert object_name(MODEL) in args.get("connected_models", [])
    assert "llama-3-1-8b" not in args.get("connected_models", [])


def test_every_group_of_pods_lets_its_own_pods_in(deployed: Deployed) -> None:
    rung = {"accelerator": "nvidia-h200-141gb", "count": 8, "hosts": 2, "provisioning": "spot"}
    zones = edited("prod", [])["capacity"]["heavy"]["rungs"][0]["reservation_zones"]
    edits: list[dict[str, Any]] = [
        {"at": ["capacity", "heavy"], "value": {"rungs": [{**rung, "zones": zones}]}},
        {
            "at": ["models", MODEL, "regions"],
            "value": sorted({zone.rpartition("-")[0] for zone in zones}),
        },
        {"at": ["models", MODEL, "disk"], "remove": True},
        *({"at": ["models", name], "remove": True} for name in OTHERS),
    ]
    platform: Platform = parse(json.dumps(edited("prod", edits)))
    registrations = deployed(platform).registrations
    groups = [seen for seen in registrations if seen.type.endswith(":LeaderWorkerSet")]
    assert groups
    found = policies(registrations)
    for group in groups:
        region = group.name.removesuffix(f"-{object_name(MODEL)}-gpu")
        selector = found[f"{region}-namespace-{object_name(MODEL)}-replicas"]["podSelector"]
        template = group.inputs["spec"]["leaderWorkerTemplate"]
        for part in ("leaderTemplate", "workerTemplate"):
            assert selector["matchLabels"].items() <= template[part]["metadata"]["labels"].items()


@pytest.mark.parametrize("is_on", [True, False])
def test_policies_can_be_left_to_another_hand(deployed: Deployed, is_on: bool) -> None:
    edits = [{"at": ["network_policies"], "value": is_on}]
    platform: Platform = parse(json.dumps(edited("local", edits)))
    assert bool(policies(deployed(platform).registrations)) is is_on
