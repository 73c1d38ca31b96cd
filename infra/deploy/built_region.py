"""Built parts of a region, for what comes after them."""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from gke_inference.clients.apigee_gate import ApigeeGate
from gke_inference.front.exported_pools import ExportedPools
from gke_inference.front.published_gateway import PublishedGateway
from gke_inference.gateway.inference_gateway import InferenceGateway, RoutedModelArgs
from infra.deploy.cluster import Cluster
from infra.plan import RegionPlan
from infra.stack import Gateway


@dataclass(frozen=True)
class ExportedModels:
    """Models of a region, for the gateway over all clusters."""

    pools: ExportedPools
    models: list[RoutedModelArgs]
    inside: pulumi.ResourceOptions
    """Options of objects in the region's cluster."""


@dataclass(frozen=True)
class BuiltRegion:
    """Outputs of a region."""

    cluster: Cluster
    gateway: InferenceGateway | None
    exported: ExportedModels | None = None
    """Models that the gateway over all clusters imports, instead of a gateway of the region."""
    run_services: tuple[pulumi.Resource, ...] = ()
    """Models on Cloud Run."""
    apigee: ApigeeGate | None = None
    """What lets Apigee check its requests, and creates the API products."""
    published: PublishedGateway | None = None
    """The service attachment that other networks and a global front connect to."""


@dataclass(frozen=True)
class ServedRegion:
    """A region with its gateway, for what asks the models through it."""

    plan: RegionPlan
    settings: Gateway
    """Settings of its gateway."""
    gateway: InferenceGateway
    buckets: Mapping[str, pulumi.Input[str]]
    """Buckets of the region by role; `models` has the weights."""
    inside: pulumi.ResourceOptions
    """Options of objects in the region's cluster."""

    @property
    def endpoint(self) -> pulumi.Output[str]:
        """URL of the gateway."""
        return self.gateway.address.apply(self.settings.endpoint)

    def after(self, *needed: pulumi.Resource) -> pulumi.ResourceOptions:
        """Return the options of objects in the cluster that depend on others."""
        behind = pulumi.ResourceOptions(depends_on=[*needed])
        return pulumi.ResourceOptions.merge(self.inside, behind)
