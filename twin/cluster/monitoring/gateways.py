"""Metrics endpoints of a cluster's load balancers, and of the uptime checks of all."""

import json
from collections.abc import Iterable
from pathlib import Path

from twin.cluster.gateway.envoy.dataplane import folder_name
from twin.host.paths import TwinPaths
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


def front_address(paths: TwinPaths) -> str | None:
    """Return Envoy's admin address of the cloud's global load balancers; None if it has none."""
    try:
        return (paths.root / "front" / "admin.address").read_text().strip() or None
    except FileNotFoundError:
        return None


def uptime_address(paths: TwinPaths) -> str | None:
    """Return `HOST:PORT` of the series of uptime checks; None if the cloud never had one."""
    try:
        return f"127.0.0.1:{json.loads(paths.uptime_file.read_text())['port']}"
    except (FileNotFoundError, ValueError, KeyError):
        return None
