"""One internal gateway for the models of all clusters of a fleet."""

from typing import NotRequired, TypedDict

import pulumi

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import under
from gke_inference.base.manifests import Manifest, SeenObject, labels_for, manifest, register
from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.versions import api
from gke_inference.gateway.checks import listener_port
from gke_inference.gateway.edge import gateway_policy
from gke_inference.gateway.inference_gateway import RoutedModelArgs
from gke_inference.gateway.routes import RoutedModel, policies, route_head, routes_of, rule_of
from gke_inference.gateway.rules import check_hostname
from gke_inference.gateway.settings import (
    LOG_PERCENT,
    UTILIZATION_PERCENT,
    LogPercent,
    UtilizationPercent,
)
from gke_inference.settings.fields import Port

from .edge import ssl_policy
from .exported_pools import EXPORTED_METRIC, checked_exports
from .routes import PATH_OF_MODELS

GATEWAY_CLASS = "gke-l7-cross-regional-internal-managed-mc"
"""Class of a Gateway over several regions inside one VPC."""
_ADDRESS = "networking.gke.io/ephemeral-ipv4-address/"
_MOST_REGIONS = 16  # Gateway API: addresses of a Gateway


class FleetGatewayArgs(TypedDict):
    """Inputs of `FleetGateway`."""

    gateway_name: str
    """Kubernetes name of the Gateway, at most 51 characters."""
    models: list[RoutedModelArgs]
    """Models of the fleet, as in the `ExportedPools` of its clusters."""
    namespace: str
    """Namespace of the Gateway and, in every cluster, of the pools."""
    regions: list[str]
    """Regions in which it has an address, each with a GLOBAL_MANAGED_PROXY subnet."""
    certificate: NotRequired[str]
    """Certificate Manager certificate of scope ALL_REGIONS. If set, the gateway serves HTTPS."""
    hostname: NotRequired[str]
    """Hostname that clients use; requires `certificate`. Default: any hostname."""
    log_percent: NotRequired[LogPercent]
    """Percentage of requests in the load balancer's access log. Default: 100."""
    port: NotRequired[Port]
    """Port of the listener. Default: 443 with a certificate, otherwise 80."""
    project: NotRequired[str]
    """Project of the SSL policy, which belongs to the certificate. Default: the provider's."""
    target_utilization_percent: NotRequired[UtilizationPercent]
    """Average KV cache use of a region's replicas above which requests overflow to the next region,
    in percent. Default: 60."""


class FleetGateway(pulumi.ComponentResource):
    """A multi-cluster inference Gateway, in the config cluster of a `Fleet`.

    Clients in the VPC use the address of their region. Requests go to the nearest region with
    capacity, and the picker of that region's pool chooses the replica. The load balancer cannot
    read a request's body, so each model has a path: `/models/NAME/v1`. With a single model, `/v1`
    works as well.
    """

    addresses: pulumi.Output[dict[str, str]]
    """IP address by region, known once the load balancer is programmed."""

    def __init__(
        self, name: str, args: FleetGatewayArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:FleetGateway", name, {}, opts)
        args = checked(FleetGatewayArgs, args)
        models = checked_exports(args["models"])
        _check(args)
        children = pulumi.ResourceOptions(parent=self)
        gateway = register(name, fleet_gateway(args), children)
        behind = pulumi.ResourceOptions(parent=self, depends_on=[gateway])
        for model in models:
            for obj in import_objects(model, args, is_only=len(models) == 1):
                role = str(obj["kind"]).lower()
                register(f"{name}-{model.pool_name}-{role}", obj, behind)
        if args.get("certificate") is not None:
            self._build_policy(name, args, behind)
        regions = list(args["regions"])
        seen = SeenObject(f"{name}-addresses", "gateway", gateway.id, children)
        self.addresses = seen.status.apply(lambda status: _by_region(regions, status))
        self.register_outputs({"addresses": self.addresses})

    def _build_policy(
        self, name: str, args: FleetGatewayArgs, behind: pulumi.ResourceOptions
    ) -> None:
        """Build the policy of the Gateway, with a global SSL policy, as its load balancer needs."""
        gateway = args["gateway_name"]
        made = ssl_policy(f"{name}-tls", gateway, project=args.get("project"), opts=under(self))
        policy = gateway_policy(gateway, args["namespace"], ssl_policy_name=gateway)
        after = pulumi.ResourceOptions(depends_on=[made])
        register(f"{name}-policy", policy, pulumi.ResourceOptions.merge(behind, after))


def fleet_gateway(args: FleetGatewayArgs) -> Manifest:
    """Return the Gateway. A deployment waits until the load balancer is programmed."""
    certificate = args.get("certificate")
    listener: Manifest = {
        "allowedRoutes": {"namespaces": {"from": "Same"}},
        "name": "http" if certificate is None else "https",
        "port": listener_port(args),
        "protocol": "HTTP" if certificate is None else "HTTPS",
    }
    if certificate is not None:
        options = {"networking.gke.io/cert-manager-certs": certificate}
        listener["tls"] = {"mode": "Terminate", "options": options}
    hostname = args.get("hostname")
    if hostname is not None:
        listener["hostname"] = hostname
    return manifest(
        "gateway",
        args["gateway_name"],
        args["namespace"],
        annotations={"pulumi.com/waitFor": "condition=Programmed"},
        labels=labels_for(args["gateway_name"], "gateway"),
        spec={
            "addresses": [
                {"type": f"{_ADDRESS}{region}", "value": region} for region in args["regions"]
            ],
            "gatewayClassName": GATEWAY_CLASS,
            "listeners": [listener],
        },
    )


def import_objects(model: RoutedModel, args: FleetGatewayArgs, *, is_only: bool) -> list[Manifest]:
    """Return the HTTPRoute, HealthCheckPolicy and GCPBackendPolicy of a model's imported pools."""
    imported = api("inference_pool_import")
    backend = imported.reference(model.pool_name, weight=1)
    rewrite = {"path": {"replacePrefixMatch": "/v1", "type": "ReplacePrefixMatch"}}
    rules: list[Manifest] = [
        rule_of(
            [backend],
            [_under(f"{PATH_OF_MODELS}{model.model_name}/v1")],
            {"type": "URLRewrite", "urlRewrite": rewrite},
        )
    ]
    if is_only:
        rules.append(rule_of([backend], [_under("/v1")]))
    head = route_head(args["namespace"], args["gateway_name"], args.get("hostname"))
    target = args.get("target_utilization_percent", UTILIZATION_PERCENT)
    metric = {
        "dryRun": False,
        "maxUtilizationPercent": target,
        "name": f"gke.named_metrics.{EXPORTED_METRIC}",
    }
    return [
        *routes_of(model.pool_name, args["namespace"], head, rules),
        *policies(
            model.pool_name,
            args["namespace"],
            imported,
            health_path=engine(model.engine).health_path,
            port=model.target_port,
            timeout_seconds=model.timeout_seconds,
            log_percent=args.get("log_percent", LOG_PERCENT),
            balancing={"balancingMode": "CUSTOM_METRICS", "customMetrics": [metric]},
        ),
    ]


def _under(prefix: str) -> Manifest:
    return {"path": {"type": "PathPrefix", "value": prefix}}


def _by_region(regions: list[str], status: Manifest | None) -> dict[str, str]:
    """Return the addresses of a Gateway by region: a status has them in the order of the spec."""
    addresses: list[Manifest] = (status or {}).get("addresses") or []
    found = [str(each["value"]) for each in addresses]
    if len(found) != len(regions):
        raise ValueError(
            f"the Gateway must have {len(regions)} addresses, got {len(found)}: GKE writes them"
            " when it programs the load balancer; run again"
        )
    return dict(zip(regions, found, strict=True))


def _check(args: FleetGatewayArgs) -> None:
    regions = args["regions"]
    if not 1 <= len(regions) <= _MOST_REGIONS or len(set(regions)) != len(regions):
        message = f"must be 1 to {_MOST_REGIONS} different regions, got {', '.join(regions)}"
        raise pulumi.InputPropertyError("regions", message)
    keep(check_hostname("", args.get("hostname"), args.get("certificate")))
