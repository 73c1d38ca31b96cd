"""The record that a platform exports for its serving stacks, and how they read it.

The record is the output `platform` of the platform's stack. Names, capacity and rules follow from
its settings; values known only after deployment are listed by region.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import pulumi
from pulumi.runtime.rpc import UNKNOWN
from pulumi.runtime.sync_await import (
    _sync_await as wait_for,
)

from gke_inference.base.kubeconfig import kubeconfig
from gke_inference.catalogue.input_error import InputError
from infra.reading.layers import shared_settings
from infra.stack import Platform
from infra.stack.problems import StackError

OUTPUT: Final = "platform"
"""Name of the output."""
VERSION: Final = 1
"""Version of the record. Incremented when serving stacks need data that older records do not
have."""


@dataclass(frozen=True)
class SharedRegion:
    """Deployed values of a platform's region."""

    address: str
    """IP address of the gateway, empty if the platform is not deployed."""
    cluster: str
    """Name of the cluster."""
    endpoint: str
    """DNS name of the cluster's control plane, empty if the platform is not deployed."""

    @property
    def kubeconfig(self) -> str:
        """Kubeconfig of the cluster, unknown if the platform is not deployed."""
        return kubeconfig(self.cluster, self.endpoint) if self.endpoint else UNKNOWN


@dataclass(frozen=True)
class Shared:
    """What a serving stack reads from its platform."""

    settings: str
    """The return value of `infra.reading.layers.shared_settings`."""
    regions: Mapping[str, SharedRegion]
    """By name, in platform order."""


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
    """Return the output `platform` of an undeployed platform, without addresses and endpoints.

    Args:
        platform: The platform's stack.
        clusters: Names of the clusters, by region.
        endpoint: Endpoint of every control plane, if there is a substitute for them.
    """
    regions = {
        name: {"address": "", "cluster": cluster, "endpoint": endpoint}
        for name, cluster in clusters.items()
    }
    return record(platform, regions)


def shared(stack: str, value: Any) -> Shared:
    """Return the record in an output.

    Args:
        stack: Name of the platform's stack.
        value: The output `platform` of that stack; None if it has none.

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
    # the engine sorts the fields of an output, but settings keep the platform's order
    order = cast("dict[str, Any]", json.loads(known["settings"]))["regions"]
    return Shared(
        str(known["settings"]),
        {
            name: SharedRegion(**{field: str(regions[name][field]) for field in fields})
            for name in order
        },
    )


def fetch(reference: str) -> Shared:
    """Return the record of the platform that a serving stack references, at run time.

    Args:
        reference: Name of the platform's stack in this project, or ORGANIZATION/PROJECT/STACK.

    Raises:
        StackError: The stack cannot be read, or has no record that can be used.
    """
    whole = reference
    if "/" not in reference:
        whole = "/".join((pulumi.get_organization(), pulumi.get_project(), reference))
    try:
        details = wait_for(pulumi.StackReference("platform", whole).get_output_details(OUTPUT))
    except Exception as error:  # noqa: BLE001 - where the engine refuses, the SDK has no type
        note = f", which cannot be read: {error}"
        raise StackError([InputError("platform", "must be a stack", whole, note)]) from None
    return shared(reference, details.value or details.secret_value)


class Reference:
    """The platform of the stack that the engine is running, read on first use."""

    shared: Shared | None = None
    """The platform's record, or None until it is read."""

    def settings(self, name: str) -> str:
        """Read the platform and return the settings that it shares.

        Raises:
            StackError: As of `fetch`.
        """
        self.shared = fetch(name)
        return self.shared.settings
