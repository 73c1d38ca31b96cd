"""Networks of a cluster: in its own project, or in the host project of a Shared VPC."""

import re
from typing import Final

from twin.providers.gcp.resources.project_numbers import is_number_of
from twin.providers.gcp.resources.references import NETWORK, Link
from twin.wire.property_values import CloudError, Json, last_segment
from twin.world.store import Record, Store

_ATTACHED: Final = "gcp:compute/sharedVPCServiceProject:SharedVPCServiceProject"
_ON_SUBNET: Final = "gcp:compute/subnetworkIAMMember:SubnetworkIAMMember"
_ON_PROJECT: Final = "gcp:projects/iAMMember:IAMMember"
_GKE: Final = re.compile(
    r"serviceAccount:service-(\d+)@container-engine-robot\.iam\.gserviceaccount\.com"
)
_APIS: Final = re.compile(r"serviceAccount:(\d+)@cloudservices\.gserviceaccount\.com")
_NETWORK_USER: Final = "roles/compute.networkUser"
_HOST_AGENT: Final = "roles/container.hostServiceAgentUser"


def missing_network(link: Link, project: str) -> CloudError:
    """Return Google's error for a cluster in a missing network."""
    parts = link.value.split("/")
    owner = parts[parts.index("projects") + 1] if "projects" in parts else project
    name = last_segment(link.value)
    return CloudError(400, f'Project "{owner}" has no network named "{name}".', "badRequest")


def not_of_network(subnetwork: str, network: str) -> CloudError:
    """Return Google's error for a subnetwork that is missing or in another network."""
    name = last_segment(network)
    return CloudError(
        400, f'Subnetwork "{subnetwork}" is not valid for Network "{name}".', "badRequest"
    )


def check_network(inputs: Json, project: str, store: Store, found: list[Link]) -> None:
    """Reject a subnetwork of another network, or a host project without access.

    Raises:
        CloudError: Error in Google's wording (rule cloud.shared-vpc).
    """
    del inputs
    targets = {link.path: link.target for link in found if link.target is not None}
    network, subnetwork = targets.get("network"), targets.get("subnetwork")
    if network is not None and subnetwork is not None:
        uses = [use.id for use in store.users(NETWORK, network.id)]
        if subnetwork.id not in uses:
            raise not_of_network(subnetwork.id, network.id)
    if network is not None and network.project != project:
        _check_access(network, subnetwork, project, store)


def _check_access(network: Record, subnetwork: Record | None, project: str, store: Store) -> None:
    """Reject a service project that is not attached, or whose agents have a missing role.

    Raises:
        CloudError: The missing permission.
    """
    host = network.project
    attached = any(
        each.outputs.get("hostProject") == host and each.outputs.get("serviceProject") == project
        for each in store.find(_ATTACHED)
    )
    subnet = "" if subnetwork is None else subnetwork.name

    def granted(role: str, agent: re.Pattern[str], on: str | None) -> bool:
        members = _members(store, host, role, on)
        found = (agent.fullmatch(each) for each in members)
        return any(each is not None and is_number_of(project, each[1], store) for each in found)

    is_let_in = (
        attached
        and granted(_HOST_AGENT, _GKE, None)
        and granted(_NETWORK_USER, _GKE, subnet)
        and granted(_NETWORK_USER, _APIS, subnet)
    )
    if not is_let_in:
        raise CloudError(
            403,
            f"Google Compute Engine: Required 'compute.networks.get' permission for '{network.id}'",
            "forbidden",
        )


def _members(store: Store, host: str, role: str, subnet: str | None) -> list[str]:
    """Return the members with a role in the host project, or on one subnet of it."""
    grants = list(store.find(_ON_PROJECT))
    if subnet is not None:
        grants += [
            each
            for each in store.find(_ON_SUBNET)
            if last_segment(str(each.outputs.get("subnetwork"))) == subnet
        ]
    return [
        str(each.outputs.get("member"))
        for each in grants
        if each.outputs.get("project") == host and each.outputs.get("role") == role
    ]
