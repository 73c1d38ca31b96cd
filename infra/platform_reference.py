"""What a platform exports for its serving stacks, as one record, and how these read it.

The record is the output `platform` of the platform's stack. Its settings are what names, capacity
and rules follow from; what only the cloud knows is beside them, by region.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import pulumi
from pulumi.runtime.rpc import UNKNOWN
from pulumi.runtime.sync_await import (
    _sync_await as wait_for,  # pyright: ignore[reportPrivateUsage] - as the SDK's own invokes wait
)

from gke_inference.base.kubeconfig import kubeconfig
from gke_inference.catalogue.input_error import InputError
from infra.reading.layers import shared_settings
from infra.stack import Platform
from infra.stack.problems import StackError

OUTPUT: Final = "platform"
"""Name of the output."""
VERSION: Final = 1
"""Version of the record: it grows when a serving stack needs what older records do not have."""


@dataclass(frozen=True)
class SharedRegion:
    """A region of a platform, as only the cloud knows it."""

    address: str
    """Address of the gateway; empty where the platform is not up."""
    cluster: str
    """Name of the cluster."""
    endpoint: str
    """DNS name of the cluster's control plane; empty where the platform is not up."""

    @property
    def kubeconfig(self) -> str:
        """The kubeconfig of the cluster; not known yet where the platform is not up."""
        return kubeconfig(self.cluster, self.endpoint) if self.endpoint else UNKNOWN


@dataclass(frozen=True)
class Shared:
    """What a serving stack has from its platform."""

    settings: str
    """As `infra.reading.layers.shared_settings` returns them."""
    regions: Mapping[str, SharedRegion]
    """By name, in the order of the platform."""


def record(
    platform: Platform, regions: Mapping[str, Mapping[str, pulumi.Input[str]]]
) -> dict[str, Any]:
    """Return the value of the output `platform`.

    Args:
        platform: The platform's stack.
        regions: The fields of `SharedRegion`, by region.
    """
    return {
        "regions": {name: dict(values) for name, values in regions.items()},
        "settings": shared_settings(platform),
        "version": VERSION,
    }


def planned(platform: Platform, clusters: Mapping[str, str], endpoint: str = "") -> dict[str, Any]:
    """Return the output `platform` of a platform that is not up: without addresses and endpoints.

    Args:
        platform: The platform's stack.
        clusters: Names of the clusters, by region.
        endpoint: Of every control plane, where something stands for them.
    """
    regions = {
        name: {"address": "", "cluster": cluster, "endpoint": endpoint}
        for name, cluster in clusters.items()
    }
    return record(platform, regions)


def shared(stack: str, value: Any) -> Shared:
    """Return the record of an output.

    Args:
        stack: Name of the platform's stack.
        value: The output `platform` of that stack; None where it has none.

    Raises:
        StackError: There is no record, or one of another version.
    """
    if not isinstance(value, dict):
        note = ": it must be up, with layer: platform"
        message = f"must be a stack with the output {OUTPUT!r}"
        raise StackError([InputError("platform", message, stack, note)])
    known = cast("dict[str, Any]", value)
    version = int(known.get("version") or 0)
    if version != VERSION:
        older = "the platform" if version < VERSION else "this stack"
        message = f"must export version {VERSION} of the record {OUTPUT!r}"
        note = f" from {stack}: deploy {older} with a newer release of gke-inference"
        raise StackError([InputError("platform", message, version, note)])
    regions = cast("dict[str, dict[str, str]]", known["regions"])
    fields = ("address", "cluster", "endpoint")
    # the engine keeps the fields of an output sorted, and the settings have the platform's order
    order = cast("dict[str, Any]", json.loads(known["settings"]))["regions"]
    return Shared(
        str(known["settings"]),
        {
            name: SharedRegion(**{field: str(regions[name][field]) for field in fields})
            for name in order
        },
    )


def fetch(reference: str) -> Shared:
    """Return the record of the platform that a serving stack names, at run time.

    Args:
        reference: Name of the platform's stack in this project, or ORGANIZATION/PROJECT/STACK.

    Raises:
        StackError: The stack cannot be read, or has no record that can be used.
    """
    whole = reference
    if "/" not in reference:
        whole = "/".join((pulumi.get_organization(), pulumi.get_project(), reference))
    try:
        found = wait_for(pulumi.StackReference("platform", whole).get_output_details(OUTPUT))
    except Exception as error:  # noqa: BLE001 - where the engine refuses, the SDK has no type
        note = f", which cannot be read: {error}"
        raise StackError([InputError("platform", "must be a stack", whole, note)]) from None
    return shared(reference, found.value or found.secret_value)


class Reference:
    """The platform of the stack that the engine runs, read when the stack turns out to have one."""

    shared: Shared | None = None
    """What the platform exports; None until it is read."""

    def settings(self, name: str) -> str:
        """Read the platform, and return the settings that it shares.

        Raises:
            StackError: As of `fetch`.
        """
        self.shared = fetch(name)
        return self.shared.settings
