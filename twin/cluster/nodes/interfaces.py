"""Networks of the interfaces of nodes, and what pods can request of them. Pure.

Conditions of GKENetworkParamSet and Network: kubernetes/cloud-provider-gcp @4e24531
pkg/controller/gkenetworkparamset (gnpcontroller_validations.go); capacity of nodes:
pkg/controller/nodeipam/ipam/multinetwork_cloud_cidr_allocator.go. Rules: `network.objects`,
`network.pods`.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from twin.cluster.base.fields import part, parts
from twin.wire.kube import JsonObject

INTERFACES_ANNOTATION = "gke-inference.dev/interfaces"
"""Annotation of a node with the networks and subnets (JSON) of its additional interfaces."""
RESOURCE_PREFIX = "networking.gke.io.networks/"
POD_ANNOTATION = "networking.gke.io/interfaces"

Attachment = tuple[str, str]
"""Names of a VPC network and of a subnet."""


@dataclass(frozen=True)
class Cloud:
    """What the controller knows of a cluster's cloud."""

    own_network: str
    networks: frozenset[str]
    subnets: Mapping[str, str]
    """Ranges of the subnets of the cluster's region, by name."""


@dataclass(frozen=True)
class Condition:
    """A condition of an object."""

    type: str
    is_true: bool
    reason: str
    message: str = ""

    def same(self, other: JsonObject) -> bool:
        """Return whether an object has it already."""
        mine = (self.type, "True" if self.is_true else "False", self.reason, self.message)
        return mine == tuple(other.get(key, "") for key in ("type", "status", "reason", "message"))


def parameters_condition(
    parameters: JsonObject, every: Iterable[JsonObject], cloud: Cloud
) -> Condition:
    """Return the condition Ready of a GKENetworkParamSet."""
    problem = _parameters_problem(parameters, every, cloud)
    if problem is None:
        return Condition("Ready", True, "GNPReady")
    return Condition("Ready", False, *problem)


def _parameters_problem(
    parameters: JsonObject, every: Iterable[JsonObject], cloud: Cloud
) -> tuple[str, str] | None:
    """Return reason and message of the first rule that is broken, in the controller's order."""
    spec = part(parameters, "spec")
    vpc, subnet = str(spec.get("vpc") or ""), str(spec.get("vpcSubnet") or "")
    has_ranges = bool(part(spec, "podIPv4Ranges").get("rangeNames"))
    has_mode = bool(spec.get("deviceMode"))
    older = _older_with(parameters, subnet, every) if has_mode else None
    in_use = "" if older is None else str(part(older, "spec").get("vpc"))
    user = "" if older is None else str(older["metadata"]["name"])
    rules = (
        (
            not vpc or not subnet,
            "GNPConfigInvalid",
            "NetworkAttachment or (VPC + VPCSubnet) must be specified",
        ),
        (
            not has_ranges and not has_mode,
            "SecondaryRangeAndDeviceModeUnspecified",
            "One of PodIPV4Ranges or DeviceMode must be specified.",
        ),
        (
            has_ranges and has_mode,
            "DeviceModeCantBeUsedWithSecondaryRange",
            "PodIPv4Ranges and DeviceMode can not be specified at the same time",
        ),
        (
            subnet not in cloud.subnets,
            "SubnetNotFound",
            f"subnet: {subnet} not found in VPC: {vpc}",
        ),
        (vpc not in cloud.networks, "VPCNotFound", f"VPC: {vpc} not found"),
        (
            has_mode and vpc == cloud.own_network,
            "DeviceModeCantUseDefaultVPC",
            "GNP with deviceMode can't reference the default VPC",
        ),
        (
            older is not None,
            "DeviceModeSubnetAlreadyInUse",
            "GNP with deviceMode can't reference a subnet already in use. "
            f"Subnet '{in_use}' is already in use by '{user}'",
        ),
    )
    return next(((reason, message) for broken, reason, message in rules if broken), None)


def _older_with(
    parameters: JsonObject, subnet: str, every: Iterable[JsonObject]
) -> JsonObject | None:
    mine: JsonObject = parameters["metadata"]
    for other in every:
        meta: JsonObject = other["metadata"]
        is_other = meta["name"] != mine["name"]
        is_older = (meta["creationTimestamp"], meta["name"]) < (
            mine["creationTimestamp"],
            mine["name"],
        )
        if is_other and is_older and part(other, "spec").get("vpcSubnet") == subnet:
            return other
    return None


def network_conditions(
    network: JsonObject, ready: Mapping[str, JsonObject]
) -> tuple[Condition, Condition] | None:
    """Return the conditions ParamsReady and Ready of a Network, or None without its parameters.

    Args:
        network: The Network.
        ready: GKENetworkParamSets that are ready, by name.
    """
    spec = part(network, "spec")
    parameters = ready.get(str(part(spec, "parametersRef").get("name")))
    if parameters is None:
        return None
    if spec.get("type") == "Device" and not part(parameters, "spec").get("deviceMode"):
        message = "Device type network requires device mode to be specified in params"
        failed = Condition("ParamsReady", False, "DeviceModeMissing", message)
        return failed, Condition("Ready", False, "ParamsNotReady", message)
    return Condition("ParamsReady", True, "GNPParamsReady"), Condition("Ready", True, "Ready")


def attached(
    networks: Iterable[JsonObject], parameters: Iterable[JsonObject]
) -> dict[Attachment, str]:
    """Return the names of the ready Device networks by what they attach to."""
    sets = {each["metadata"]["name"]: part(each, "spec") for each in parameters}
    found: dict[Attachment, str] = {}
    for network in networks:
        spec = part(network, "spec")
        of = sets.get(str(part(spec, "parametersRef").get("name")))
        if of is None or spec.get("type") != "Device" or not is_ready(network):
            continue
        found[str(of.get("vpc")), str(of.get("vpcSubnet"))] = network["metadata"]["name"]
    return found


def is_ready(item: JsonObject) -> bool:
    """Return whether an object has the condition Ready."""
    conditions = parts(part(item, "status"), "conditions")
    return any(each.get("type") == "Ready" and each["status"] == "True" for each in conditions)


def resources(names: Iterable[str]) -> dict[str, str]:
    """Return what a node offers of networks: one interface of each Device network."""
    return {f"{RESOURCE_PREFIX}{name}.IP": "1" for name in names}


def interfaces_of(node: JsonObject) -> list[Attachment]:
    """Return what the additional interfaces of a node attach to."""
    notes: dict[str, str] = node["metadata"].get("annotations") or {}
    return [(str(a), str(b)) for a, b in json.loads(notes.get(INTERFACES_ANNOTATION, "[]"))]


def interface_names(pod: JsonObject) -> list[str]:
    """Return the names of a pod's interfaces beside its own, one for each network that it names."""
    notes: dict[str, str] = pod["metadata"].get("annotations") or {}
    try:
        listed: list[JsonObject] = json.loads(notes.get(POD_ANNOTATION, "[]"))
        names = {str(each["network"]): str(each["interfaceName"]) for each in listed}
    except (ValueError, KeyError, TypeError):
        return []
    return [name for network, name in names.items() if network != "default"]
