"""Models that run outside the platform, behind a Gateway."""

from typing import Annotated, NotRequired, TypedDict

import pulumi
from pydantic import Field

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import name_of, under
from gke_inference.base.manifests import (
    Manifest,
    deployment,
    disruption_budget,
    labels_for,
    manifest,
    register,
    scraping,
    service,
)
from gke_inference.catalogue.problems import join
from gke_inference.catalogue.versions import api
from gke_inference.gateway import routes as gateway_routes
from gke_inference.gateway.settings import LOG_PERCENT, Exposure, LogPercent, ProxyCallersArgs

from .program import document, ports_of
from .relay import COMPONENT, FILE, PORT, relay_pod, walls
from .rules import check_backend
from .settings import REPLICAS, BackendSettings, RelayReplicas


class ModelBackendsArgs(TypedDict):
    """Inputs of `ModelBackends`."""

    backends: Annotated[dict[str, BackendSettings], Field(min_length=1)]
    """Backends, by the name that clients send in `model`."""
    exposure: Exposure
    """Exposure of the Gateway."""
    gateway_name: str
    """Kubernetes name of the Gateway."""
    namespace: str
    """Namespace of the Gateway, the routes and the relay."""
    relay_name: str
    """Kubernetes name of the relay's objects."""
    service_account: str
    """Service account of the relay (`WorkloadIdentity`), which `BackendAccess` allows to call."""
    callers: NotRequired[ProxyCallersArgs]
    """Allowed ingress to the relay. Default: no policy, all traffic is allowed."""
    force_usage: NotRequired[bool]
    """Whether every stream includes its token usage, for a `ClientGate` in front. Default:
    false."""
    hostname: NotRequired[str]
    """Hostname that clients use. Default: every hostname of the Gateway."""
    log_percent: NotRequired[LogPercent]
    """Percentage of requests in the load balancer's access log. Default: 100."""
    replicas: NotRequired[RelayReplicas]
    """Replicas of the relay. Default: 2."""


class ModelBackends(pulumi.ComponentResource):
    """A relay, and a route to it for each backend.

    Routes of a GKE Gateway reach only Services and InferencePools, and a load balancer creates no
    tokens, so the relay adds the credential and calls the provider.
    """

    service_name: pulumi.Output[str]
    """Name of the relay's Service."""

    def __init__(
        self, name: str, args: ModelBackendsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ModelBackends", name, {}, opts)
        args = checked(ModelBackendsArgs, args)
        relay = name_of(args, "relay_name", "namespace")
        for model, backend in args["backends"].items():
            keep(check_backend(join("backends", model), backend))
        made: list[pulumi.Resource] = []
        for role, obj in _objects(relay, args).items():
            logical = name if role == "deployment" else f"{name}-{role}"
            made.append(register(logical, obj, under(self, depends_on=list(made))))
        self.service_name = pulumi.Output.from_input(relay)
        self.register_outputs({"serviceName": self.service_name})


def _objects(relay: str, args: ModelBackendsArgs) -> dict[str, Manifest]:
    """Return the objects by role, in creation order."""
    namespace, backends = args["namespace"], args["backends"]
    labels = labels_for(relay, COMPONENT)
    settings = document(backends, force_usage=args.get("force_usage", False))
    longest = max(backend.timeout_seconds for backend in backends.values())
    pod = relay_pod(relay, args["service_account"], relay, longest, has_token=False)
    callers = args.get("callers")
    ports: list[Manifest] = [{"name": "http", "port": PORT, "targetPort": "http"}]
    made = {
        "settings": manifest("config_map", relay, namespace, labels=labels, data={FILE: settings}),
        **({} if callers is None else walls(relay, namespace, labels, callers, ports_of(backends))),
        "deployment": deployment(relay, namespace, COMPONENT, pod, args.get("replicas", REPLICAS)),
        "budget": disruption_budget(relay, namespace, COMPONENT),
        "service": service(relay, namespace, COMPONENT, ports),
        "monitoring": scraping(relay, namespace, COMPONENT),
    }
    policies = gateway_routes.policies(
        relay,
        namespace,
        api("service"),
        health_path="/health",
        port=PORT,
        timeout_seconds=longest,
        log_percent=args.get("log_percent", LOG_PERCENT),
        security_policy=args["gateway_name"] if args["exposure"] is Exposure.EXTERNAL else None,
    )
    routes = _routes(relay, args)
    return made | dict(zip(("health", "edge"), policies, strict=True)) | routes


def _routes(relay: str, args: ModelBackendsArgs) -> dict[str, Manifest]:
    """Return the HTTPRoutes by role."""
    reference = api("service").reference(relay, port=PORT, weight=1)
    matches = [gateway_routes.name_match(name) for name in sorted(args["backends"])]
    rules: list[Manifest] = [
        gateway_routes.rule_of([reference], some)
        for some in gateway_routes.dealt(matches, gateway_routes.MATCHES_PER_RULE)
    ]
    namespace = args["namespace"]
    head = gateway_routes.route_head(namespace, args["gateway_name"], args.get("hostname"))
    made = gateway_routes.routes_of(relay, namespace, head, rules)
    return {f"route-{number}": route for number, route in enumerate(made, 1)}
