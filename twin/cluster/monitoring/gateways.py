"""Metrics endpoints of a cluster's load balancers."""

from collections.abc import Iterable
from pathlib import Path

from twin.cluster.gateway.envoy.dataplane import folder_name
from twin.wire.kube import JsonObject


def admin_addresses(
    cluster_dir: Path, gateways: Iterable[JsonObject]
) -> dict[tuple[str, str], tuple[str, str]]:
    """Return (gateway class, Envoy's admin address) by namespace and name of each Gateway."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for gateway in gateways:
        namespace, name = gateway["metadata"]["namespace"], gateway["metadata"]["name"]
        file = cluster_dir / "gateways" / folder_name(namespace, name) / "admin.address"
        try:
            address = file.read_text().strip()
        except FileNotFoundError:
            continue  # not up yet
        if address:
            found[namespace, name] = (str(gateway["spec"]["gatewayClassName"]), address)
    return found
