"""The inference endpoint of a region: an OpenAI-compatible API with a picker for each model."""

import json
from typing import Annotated, NotRequired, TypedDict

import pulumi
from pulumi_gcp import compute
from pydantic import Field

from gke_inference.base.checked import checked
from gke_inference.base.manifests import Manifest, SeenObject, labels_for, manifest, register
from gke_inference.catalogue.engines import EngineName
from gke_inference.catalogue.load_balancing import CLIENT_OF_A_GATEWAY
from gke_inference.catalogue.names import router_name
from gke_inference.intent.settings import RequestSeconds
from gke_inference.intent.words import Task
from gke_inference.settings.fields import ForwardedHops, Port
from gke_inference.sizing.pickers import router_millicores

from .backends import Backends, role_of
from .checks import GATEWAY_CLASSES, checked_gateway, lines_of, listener_port, peak_load
from .definitions import definitions
from .edge import gateway_policy, security_policy, ssl_policy
from .extension_timeout import extension_timeout
from .router import COMPONENT as ROUTER
from .router import AskedGate, router_objects, routing_extension
from .settings import (
    REQUESTS_PER_MINUTE,
    Exposure,
    LogPercent,
    PeakArgs,
    PickerFailure,
    PickerReplicas,
    PickersArgs,
    Priority,
    RequestPercent,
    RequestsPerMinute,
    RouterReplicas,
    RoutingArgs,
    WaitSeconds,
)

FORWARDING_RULES = "networking.gke.io/forwarding-rules"
"""Annotation with the names of a Gateway's forwarding rules, which GKE sets."""


class RoutedCanaryArgs(TypedDict):
    """A second version of a model, served under the same names."""

    pool_name: str
    """Kubernetes name of its pool, at most 51 characters."""
    selector: Annotated[dict[str, str], Field(min_length=1)]
    """Labels of the pods that serve this version."""
    version: str
    """Name of the version, not `stable`. It answers requests with the header `x-model-version:
    VERSION`, whatever its share. Requests with `x-model-version: stable` go to the other
    version."""
    engine: NotRequired[EngineName]
    """Engine of its pods. Default: the model's engine."""
    percent: NotRequired[RequestPercent]
    """Percentage of the other requests. Raise it once a replica is ready: the share of a version
    without a ready replica is answered with 503. Default: 0."""


class RoutedModelArgs(TypedDict):
    """One model behind an `InferenceGateway`."""

    model_name: str
    """Name that clients send in `model`."""
    pool_name: str
    """Kubernetes name of its pool, at most 51 characters."""
    selector: Annotated[dict[str, str], Field(min_length=1)]
    """Labels of the pods that serve it, on all hardware."""
    target_port: Port
    """Port that the engine listens on."""
    timeout_seconds: RequestSeconds
    """Maximum duration of a request in seconds, streams included."""
    adapters: NotRequired[list[str]]
    """LoRA adapters that clients may request instead of the model."""
    canary: NotRequired[RoutedCanaryArgs]
    """A second version that receives a share of the requests for the model and its adapters."""
    engine: NotRequired[EngineName]
    """Engine of its pods, which determines their metric names. Default: `vllm`."""
    further_models: NotRequired[list[str]]
    """Other models that its pods serve, such as further image models of a server."""
    grpc_port: NotRequired[Port]
    """Port for gRPC of the pods of a predictive model and of its canary. Default: no gRPC."""
    has_live_adapters: NotRequired[bool]
    """Whether adapters are uploaded while it serves. If so, only prompt paths are routed, and the
    header `X-Gateway-Base-Model-Name` routes an adapter's name to its model. Not with a canary."""
    peak: NotRequired[PeakArgs]
    """Most requests of the model, which determine the CPU and memory of its picker and of the body
    router. Default: those of a small model."""
    prefill_threshold_tokens: NotRequired[Annotated[int, Field(ge=0, le=10_000_000)]]
    """For pools with prefill and decode replicas, labeled `llm-d.ai/role`: prompts with at least
    this many uncached tokens go through a prefill replica; 0 sends every prompt. Such a pool
    rejects requests while its picker is unavailable, regardless of `pickerFailure`: the picker
    prevents clients from choosing the address that the sidecar calls."""
    priority: NotRequired[Priority]
    """Priority of the objective `POOL-interactive`. Default: 10; `POOL-batch` has -1."""
    routing: NotRequired[RoutingArgs]
    """How the picker of line `llm-d-router` chooses replicas. Default: by queues, KV cache,
    prefixes and adapters."""
    task: NotRequired[Task]
    """Kind of output. Default: `generate`. The picker can read only `generate`
    requests; the load balancer spreads others over the replicas."""


class RouteSourceArgs(TypedDict):
    """A namespace, other than the Gateway's own, whose routes the Gateway accepts."""

    namespace: str
    """Name of the namespace."""
    hostname: NotRequired[str]
    """Hostname of a dedicated listener that accepts routes from this namespace only. Requires
    `certificate`. Default: the Gateway's hostname, which such namespaces share."""


class InferenceGatewayArgs(TypedDict):
    """Inputs of `InferenceGateway`."""

    address_name: str
    """Name of the static regional IP address to reserve."""
    exposure: Exposure
    """`external` for a regional external load balancer, `internal` for the VPC only."""
    forwarded_hops: NotRequired[ForwardedHops]
    """Position of the client's address in X-Forwarded-For, counted from the end: 4 behind a further
    load balancer. Default: 2."""
    gateway_name: str
    """Kubernetes name of the Gateway, at most 51 characters."""
    models: list[RoutedModelArgs]
    """Models, each with its own pool. Empty if all models are those of `routeSources`."""
    namespace: str
    """Namespace of the Gateway, the pools and the model servers. A pool selects pods only in its
    namespace."""
    region: pulumi.Input[str]
    """Region of the cluster and the IP address."""
    asked_gate: NotRequired[str]
    """`HOST:PORT` of the `ClientGate` that the body router asks about `asked_models`. Default: it
    asks nobody."""
    asked_models: NotRequired[list[str]]
    """Models for which a cheaper one answers once the budget of a team is spent
    (`when_spent`). Default: none."""
    backend_names: NotRequired[list[str]]
    """Names that `ModelBackends` routes, to list with the models. Default: none."""
    credential_headers: NotRequired[list[str]]
    """Lowercase headers of which a prompt needs one. The body router refuses others before it holds
    their bodies, as the `ClientGate` would afterwards. Default: none is needed."""
    certificate: NotRequired[str]
    """Regional Certificate Manager certificate. If set, the gateway serves HTTPS only."""
    fairness_wait_seconds: NotRequired[WaitSeconds]
    """If set, requests for which no replica has room wait in the picker, in a queue for each client
    (header `x-gateway-inference-fairness-id`), and the queues take turns. A request that waited
    this many seconds is rejected: by the picker with 503, which a `ClientGate` makes
    a 429. Requires a `ClientGate`, which also sets the header.
    Default: requests wait in the engines, in order of arrival."""
    global_access: NotRequired[bool]
    """Internal only: whether clients in other regions can reach it, as a global front requires.
    Default: false."""
    has_batches: NotRequired[bool]
    """Whether a `BatchService` serves `/v1/files` and `/v1/batches`, which then bypass the
    body router. Default: false."""
    has_definitions: NotRequired[bool]
    """Whether the cluster already has the kinds InferenceObjective and InferenceModelRewrite, from
    another gateway or managed elsewhere. Default: false, since GKE installs only InferencePool."""
    hostname: NotRequired[str]
    """Hostname that clients use; requires `certificate`. Default: any hostname."""
    is_published: NotRequired[bool]
    """Whether a deployment waits until GKE has named the forwarding rule, which `PublishedGateway`
    reads. Default: false."""
    log_percent: NotRequired[LogPercent]
    """Percentage of requests in the load balancer's access log. Default: 100."""
    picker_failure: NotRequired[PickerFailure]
    """Behavior while a picker is unavailable. With `open`, requests go to any ready replica, since
    every replica of a pool can answer every request. With `closed`, requests fail, for pools whose
    replicas differ. Default: `open`."""
    picker_replicas: NotRequired[PickerReplicas]
    """Pickers per pool. Additional pickers are on standby and take over by leader election.
    Default: 1."""
    pickers: NotRequired[PickersArgs]
    """Line of the pickers and their settings. Default: those of line `gie`."""
    port: NotRequired[Port]
    """Port of the listener. Default: 443 with a certificate, otherwise 80."""
    project: NotRequired[pulumi.Input[str]]
    """Project of the IP address. Default: the provider's."""
    requests_per_minute: NotRequired[RequestsPerMinute]
    """External only: requests per minute that one IP address may send to one model. Further
    requests are rejected with 429. Default: 600."""
    route_sources: NotRequired[list[RouteSourceArgs]]
    """Other namespaces whose routes it accepts, which `ModelRoutes` creates. Default: none."""
    router_replicas: NotRequired[RouterReplicas]
    """Replicas of the body router and of the model catalog. Default: 2."""
    subnetwork: NotRequired[pulumi.Input[str]]
    """Subnetwork of the IP address. Required for `internal`."""


class InferenceGateway(pulumi.ComponentResource):
    """A Gateway that routes by model name and picks the best replica for each request.

    Creates the IP address, the Gateway, the body router, the model catalog, and for each
    model a pool with its picker, routes, objectives, health check and timeout. An external Gateway
    gets a Cloud Armor policy with a rate limit per IP address; a Gateway with a certificate gets an
    SSL policy that requires TLS 1.2. Prerequisites: the InferencePool CRD, which GKE installs (see
    `gke_minimum("inference-pool-crd")`), and one proxy-only subnet per region in the VPC.
    """

    address: pulumi.Output[str]
    """IP address of the endpoint."""
    gateway_id: pulumi.Output[str]
    """`NAMESPACE/NAME` of the Gateway, known once its load balancer is programmed."""
    gateway_name: pulumi.Output[str]
    """Name of the Gateway in its namespace."""
    pools: pulumi.Output[list[str]]
    """Names of the pools, in the order of `models`."""

    def __init__(
        self, name: str, args: InferenceGatewayArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:InferenceGateway", name, {}, opts)
        args = checked(InferenceGatewayArgs, args)
        models = checked_gateway(args)
        self._opts = pulumi.ResourceOptions(parent=self)
        address = self._build_address(name, args)
        policy = self._build_policy(name, args)
        gateway = self._build_gateway(name, args, [address, *policy])
        behind = pulumi.ResourceOptions.merge(
            self._opts, pulumi.ResourceOptions(depends_on=[gateway])
        )
        guard = self._build_guard(name, args)
        self._build_router(name, args, behind)
        definitions = tuple(self._build_definitions(name, args))
        backends = Backends(name, args, self._opts, behind, guard, definitions)
        backends.add_catalogue(models)
        for model in models:
            backends.add(model)
        self.address = address.address
        self.gateway_id = self._programmed(name, args, gateway, policy)
        self.gateway_name = pulumi.Output.from_input(args["gateway_name"])
        self.pools = pulumi.Output.from_input([model.pool_name for model in models])
        self.register_outputs(
            {
                "address": self.address,
                "gatewayId": self.gateway_id,
                "gatewayName": self.gateway_name,
                "pools": self.pools,
            }
        )

    def _build_address(self, name: str, args: InferenceGatewayArgs) -> "compute.Address":
        is_internal = args["exposure"] is Exposure.INTERNAL
        return compute.Address(
            f"{name}-address",
            address_type="INTERNAL" if is_internal else "EXTERNAL",
            name=args["address_name"],
            # A regional load balancer takes addresses of the standard tier, and inner ones have no
            # choice (docs.cloud.google.com/network-tiers/docs/set-network-tier).
            network_tier=None if is_internal else "STANDARD",
            project=args.get("project"),
            purpose="SHARED_LOADBALANCER_VIP" if is_internal else None,
            region=args["region"],
            subnetwork=args.get("subnetwork") if is_internal else None,
            opts=self._opts,
        )

    def _build_gateway(
        self, name: str, args: InferenceGatewayArgs, needed: list[pulumi.Resource]
    ) -> pulumi.CustomResource:
        opts = pulumi.ResourceOptions.merge(self._opts, pulumi.ResourceOptions(depends_on=needed))
        return register(name, gateway_object(args), opts)

    def _programmed(
        self,
        name: str,
        args: InferenceGatewayArgs,
        gateway: pulumi.CustomResource,
        policies: list[pulumi.CustomResource],
    ) -> pulumi.Output[str]:
        """Return `NAMESPACE/NAME` of the Gateway; if published, once its policy is attached."""
        if not args.get("is_published", False) or not policies:
            return gateway.id
        opts = pulumi.ResourceOptions.merge(
            self._opts, pulumi.ResourceOptions(depends_on=[gateway])
        )
        seen = SeenObject(f"{name}-policy-status", "gateway_policy", policies[0].id, opts)
        return pulumi.Output.all(gateway.id, seen.status).apply(
            lambda known: attached(known[0], known[1])
        )

    def _build_guard(
        self, name: str, args: InferenceGatewayArgs
    ) -> "compute.RegionSecurityPolicy | None":
        if args["exposure"] is Exposure.INTERNAL:
            return None
        return security_policy(
            f"{name}-guard",
            args["gateway_name"],
            project=args.get("project"),
            region=args["region"],
            requests_per_minute=args.get("requests_per_minute", REQUESTS_PER_MINUTE),
            opts=self._opts,
        )

    def _build_policy(self, name: str, args: InferenceGatewayArgs) -> list[pulumi.CustomResource]:
        """Build the policy of the Gateway: TLS, and access from other regions.

        It comes before the Gateway, because the access of a forwarding rule cannot change after its
        creation (Compute Engine API, forwardingRules.allowGlobalAccess).
        """
        has_tls, reached = args.get("certificate") is not None, args.get("global_access", False)
        if not has_tls and not reached:
            return []
        gateway, opts = args["gateway_name"], self._opts
        if has_tls:
            made = ssl_policy(
                f"{name}-tls",
                gateway,
                project=args.get("project"),
                region=args["region"],
                opts=self._opts,
            )
            opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[made]))
        policy = gateway_policy(
            gateway,
            args["namespace"],
            global_access=reached,
            ssl_policy_name=gateway if has_tls else None,
        )
        return [register(f"{name}-policy", policy, opts)]

    def _build_router(
        self, name: str, args: InferenceGatewayArgs, behind: pulumi.ResourceOptions
    ) -> None:
        gateway, namespace = args["gateway_name"], args["namespace"]
        router, replicas = router_name(gateway), args.get("router_replicas", 2)
        hops = args.get("forwarded_hops", CLIENT_OF_A_GATEWAY)
        loads = [load for each in args["models"] if (load := peak_load(each)) is not None]
        for obj in router_objects(
            router,
            namespace,
            replicas,
            hops,
            router_millicores(loads, replicas),
            args.get("credential_headers", []),
            _asked(args),
        ):
            register(f"{name}-router-{role_of(obj)}", obj, self._opts)
        timeout = extension_timeout(router, namespace, ROUTER)
        limited = register(f"{name}-router-{role_of(timeout)}", timeout, self._opts)
        extension = routing_extension(
            router, namespace, gateway, router, has_batches=args.get("has_batches", False)
        )
        after = pulumi.ResourceOptions(depends_on=[limited])
        called = pulumi.ResourceOptions.merge(behind, after)
        register(f"{name}-router-{role_of(extension)}", extension, called)

    def _build_definitions(self, name: str, args: InferenceGatewayArgs) -> list[pulumi.Resource]:
        if args.get("has_definitions", False):
            return []
        return [
            register(f"{name}-{role}-definition", obj, self._opts)
            for role, obj in definitions(*lines_of(args)).items()
        ]


def _asked(args: InferenceGatewayArgs) -> AskedGate | None:
    """Return the gate that the body router asks, if there are models to ask it about."""
    gate, models = args.get("asked_gate"), args.get("asked_models", [])
    return AskedGate(gate, tuple(sorted(models))) if gate is not None and models else None


def gateway_object(args: InferenceGatewayArgs) -> Manifest:
    """Return the Gateway. A deployment waits until the load balancer is programmed."""
    sources = args.get("route_sources", [])
    sharing = [source["namespace"] for source in sources if source.get("hostname") is None]
    name = "http" if args.get("certificate") is None else "https"
    listeners = [
        _listener(
            args, name, args.get("hostname"), _open_to(args, [args["namespace"], *sorted(sharing)])
        )
    ]
    for source in sources:
        host = source.get("hostname")
        if host is not None:
            taken = _open_to(args, [source["namespace"]])
            listeners.append(_listener(args, f"{name}-{source['namespace']}", host, taken))
    return manifest(
        "gateway",
        args["gateway_name"],
        args["namespace"],
        annotations={"pulumi.com/waitFor": _awaited(args)},
        labels=labels_for(args["gateway_name"], "gateway"),
        spec={
            "addresses": [{"type": "NamedAddress", "value": args["address_name"]}],
            "gatewayClassName": GATEWAY_CLASSES[args["exposure"]],
            "listeners": listeners,
        },
    )


def attached(gateway: str, status: Manifest | None) -> str:
    """Return a Gateway once GKE has attached its policy.

    A service attachment must not publish a forwarding rule that the policy is about to replace.

    Args:
        gateway: `NAMESPACE/NAME`.
        status: Status of the GCPGatewayPolicy of the same name.

    Raises:
        ValueError: GKE has not attached the policy.
    """
    conditions: list[Manifest] = (status or {}).get("conditions") or []
    found = next((each for each in conditions if each.get("type") == "Attached"), None)
    if found is None or found.get("status") != "True":
        said = None if found is None else found.get("message") or found.get("reason")
        reason = said or "no condition Attached"
        raise ValueError(
            f"GCPGatewayPolicy {gateway} must be Attached before the Gateway is published, got: "
            f"{reason}; run `up` again once it is"
        )
    return gateway


def _awaited(args: InferenceGatewayArgs) -> str:
    """Return the await conditions of a deployment, as an annotation for Pulumi."""
    programmed = "condition=Programmed"
    if not args.get("is_published", False):
        return programmed
    key = FORWARDING_RULES.replace(".", "\\.")
    return json.dumps([programmed, f"jsonpath={{.metadata.annotations.{key}}}"])


def _listener(
    args: InferenceGatewayArgs, name: str, hostname: str | None, allowed: Manifest
) -> Manifest:
    certificate = args.get("certificate")
    listener: Manifest = {
        "allowedRoutes": {"namespaces": allowed},
        "name": name,
        "port": listener_port(args),
        "protocol": "HTTP" if certificate is None else "HTTPS",
    }
    if certificate is not None:
        listener["tls"] = {
            "mode": "Terminate",
            "options": {"networking.gke.io/cert-manager-certs": certificate},
        }
    if hostname is not None:
        listener["hostname"] = hostname
    return listener


def _open_to(args: InferenceGatewayArgs, namespaces: list[str]) -> Manifest:
    """Return the namespaces whose routes a listener accepts."""
    if namespaces == [args["namespace"]]:
        return {"from": "Same"}
    names = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces}
    return {"from": "Selector", "selector": {"matchExpressions": [names]}}
