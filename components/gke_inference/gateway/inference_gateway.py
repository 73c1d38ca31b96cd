"""The one endpoint of a region: OpenAI's API in front of every model, with a picker behind each."""

from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_gcp import compute

from gke_inference.base.manifests import Manifest, labels_for, manifest, register
from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.versions import api

from . import canary as gateway_canary
from . import model_catalogue as gateway_catalogue
from . import routes as gateway_routes
from .checks import FAILURE_MODES, GATEWAY_CLASSES, checked_models, listener_port
from .definitions import definitions
from .edge import REQUESTS_PER_MINUTE, gateway_policy, security_policy, ssl_policy
from .model_catalogue import catalogue_objects
from .picker import picker_objects
from .router import router_objects, routing_extension
from .routes import RoutedModel


class RoutedCanaryArgs(TypedDict):
    """A second version of a model, which answers to the same names."""

    pool_name: str
    """Kubernetes name of its pool, at most 51 characters."""
    selector: dict[str, str]
    """Labels of the pods that serve this version."""
    version: str
    """Name of the version: a request with the header `x-model-version: VERSION` is answered by it,
    whatever its share, and one with `x-model-version: stable` by the other. Not `stable`."""
    percent: NotRequired[int]
    """Share of the other requests, 0 (default) to 100. Raise it once a replica is ready: the share
    of a version without one is answered with 503."""


class RoutedModelArgs(TypedDict):
    """One model behind an `InferenceGateway`."""

    model_name: str
    """Name clients put into `model`."""
    pool_name: str
    """Kubernetes name of its pool, at most 51 characters."""
    selector: dict[str, str]
    """Labels of the pods that serve it, whatever hardware they run on."""
    target_port: int
    """Port the engine listens on."""
    timeout_seconds: int
    """Longest a request may take, streams included: 1 to 3600."""
    adapters: NotRequired[list[str]]
    """LoRA adapters clients may name instead of the model."""
    canary: NotRequired[RoutedCanaryArgs]
    """A second version that takes a share of the requests for the model and its adapters."""
    engine: NotRequired[str]
    """Engine of its pods, which says what their metrics are called. Default `vllm`."""
    has_live_adapters: NotRequired[bool]
    """Whether adapters come while it serves. Then only the paths of prompts are routed, and the
    header `X-Gateway-Base-Model-Name` sends an adapter's name to its model. Not with a canary."""
    prefill_threshold_tokens: NotRequired[int]
    """The pool has prefill and decode replicas, told apart by the label `llm-d.ai/role`: prompts
    with as many tokens that are in no cache go through a prefill replica; 0 sends every prompt.
    Such a pool is closed while its picker is away, whatever `pickerFailure` says: the picker is
    what keeps clients from choosing the address that a side-car calls."""
    priority: NotRequired[int]
    """Priority of the objective `POOL-interactive`, 0 or more. Default 10; `POOL-batch` has -1."""
    task: NotRequired[str]
    """`generate` (default), `embed` or `image`. The picker reads requests of the first only, so the
    others are spread over the replicas by the load balancer."""


class InferenceGatewayArgs(TypedDict):
    """Inputs of `InferenceGateway`."""

    address_name: str
    """Name of the static regional IP address it reserves."""
    exposure: str
    """`external` (regional external load balancer) or `internal` (only the VPC)."""
    gateway_name: str
    """Kubernetes name of the Gateway, at most 51 characters."""
    models: list[RoutedModelArgs]
    """The models, each with its own pool."""
    namespace: str
    """Namespace of the Gateway, the pools and the model servers: a pool selects only there."""
    region: pulumi.Input[str]
    """Region of the cluster, where the address is reserved."""
    certificate: NotRequired[str]
    """Certificate Manager certificate (regional). With it the gateway speaks HTTPS only."""
    has_definitions: NotRequired[bool]
    """Whether the cluster has the kinds InferenceObjective and InferenceModelRewrite already, from
    another gateway or another hand. Default no: GKE brings InferencePool only, so they are made."""
    hostname: NotRequired[str]
    """Host clients use; needs `certificate`. Without it every host is answered."""
    log_percent: NotRequired[float]
    """Share of requests, 0 to 100, with a line in the load balancer's access log. Default 100."""
    picker_failure: NotRequired[str]
    """What happens while a picker is away. `open` (default): requests go to any ready replica,
    because every replica of a pool can answer every request and a lost optimisation must not be a
    lost service. `closed`: requests fail; for pools whose replicas are not alike."""
    picker_replicas: NotRequired[int]
    """Pickers per pool, default 1; more are standbys that take over by leader election."""
    port: NotRequired[int]
    """Port of the listener. Default 443 with a certificate, else 80."""
    project: NotRequired[pulumi.Input[str]]
    """Project of the address. Default: the provider's."""
    requests_per_minute: NotRequired[int]
    """External only: requests that one address may make of one model in a minute, 1 to 1000000;
    more are refused with 429. Default 600."""
    router_replicas: NotRequired[int]
    """Replicas of the body-based router and of the catalogue, default 2."""
    subnetwork: NotRequired[pulumi.Input[str]]
    """Subnetwork of the address; required for `internal`."""


class InferenceGateway(pulumi.ComponentResource):
    """A Gateway that routes on the model's name and picks the best replica for each request.

    It creates the address, the Gateway, the body-based router, the model catalogue, and for each
    model a pool with its picker, routes, objectives, health check and timeout. An external one has
    a Cloud Armor policy with a rate limit for each address, one with a certificate an SSL policy:
    TLS 1.2 at least. What must be there:
    the InferencePool CRD, which GKE brings (see `gke_minimum("inference-pool-crd")`), and, once for
    each region, a proxy-only subnet in the VPC.
    """

    address: pulumi.Output[str]
    """IP address of the endpoint."""
    gateway_name: pulumi.Output[str]
    """Name of the Gateway in its namespace."""
    pools: pulumi.Output[list[str]]
    """Names of the pools, in the order of `models`."""

    def __init__(
        self, name: str, args: InferenceGatewayArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:InferenceGateway", name, {}, opts)
        models = checked_models(args)
        self._opts = pulumi.ResourceOptions(parent=self)
        address = self._build_address(name, args)
        gateway = self._build_gateway(name, args, address)
        behind = pulumi.ResourceOptions.merge(
            self._opts, pulumi.ResourceOptions(depends_on=[gateway])
        )
        self._guard = self._build_guard(name, args)
        self._build_tls(name, args, behind)
        self._build_shared(name, args, models, behind)
        self._definitions = self._build_definitions(name, args)
        for model in models:
            self._build_model(name, args, model, behind)
        self.address = address.address
        self.gateway_name = pulumi.Output.from_input(args["gateway_name"])
        self.pools = pulumi.Output.from_input([model.pool_name for model in models])
        self.register_outputs(
            {"address": self.address, "gatewayName": self.gateway_name, "pools": self.pools}
        )

    def _build_address(self, name: str, args: InferenceGatewayArgs) -> compute.Address:
        is_internal = args["exposure"] == "internal"
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
        self, name: str, args: InferenceGatewayArgs, address: compute.Address
    ) -> pulumi.CustomResource:
        opts = pulumi.ResourceOptions.merge(
            self._opts, pulumi.ResourceOptions(depends_on=[address])
        )
        return register(name, gateway_object(args), opts)

    def _build_guard(
        self, name: str, args: InferenceGatewayArgs
    ) -> compute.RegionSecurityPolicy | None:
        if args["exposure"] != "external":
            return None
        return security_policy(
            f"{name}-guard",
            args["gateway_name"],
            project=args.get("project"),
            region=args["region"],
            requests_per_minute=int(args.get("requests_per_minute", REQUESTS_PER_MINUTE)),
            opts=self._opts,
        )

    def _build_tls(
        self, name: str, args: InferenceGatewayArgs, behind: pulumi.ResourceOptions
    ) -> None:
        if args.get("certificate") is None:
            return
        gateway = args["gateway_name"]
        made = ssl_policy(
            f"{name}-tls",
            gateway,
            project=args.get("project"),
            region=args["region"],
            opts=self._opts,
        )
        opts = pulumi.ResourceOptions.merge(behind, pulumi.ResourceOptions(depends_on=[made]))
        register(f"{name}-policy", gateway_policy(gateway, args["namespace"], gateway), opts)

    def _guarded(self, opts: pulumi.ResourceOptions) -> pulumi.ResourceOptions:
        """Returns the options of a backend's policies: the policy they name goes after them."""
        needed: list[pulumi.Resource] = [] if self._guard is None else [self._guard]
        return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=needed))

    def _build_shared(
        self,
        name: str,
        args: InferenceGatewayArgs,
        models: list[RoutedModel],
        behind: pulumi.ResourceOptions,
    ) -> None:
        gateway, namespace = args["gateway_name"], args["namespace"]
        replicas = int(args.get("router_replicas", 2))
        hostname = args.get("hostname")
        router, catalogue = f"{gateway}-body-router", f"{gateway}-catalogue"
        served = {model.model_name: list(model.adapters) for model in models}
        for obj in router_objects(router, namespace, replicas):
            register(f"{name}-router-{_role(obj)}", obj, self._opts)
        extension = routing_extension(router, namespace, gateway, router)
        register(f"{name}-router-{_role(extension)}", extension, behind)
        port = gateway_catalogue.PORT
        for obj in catalogue_objects(catalogue, namespace, served, replicas):
            register(f"{name}-catalogue-{_role(obj)}", obj, self._opts)
        for obj in [
            gateway_routes.catalogue_route(catalogue, namespace, gateway, hostname, port),
            *gateway_routes.policies(
                catalogue,
                namespace,
                api("service"),
                health_path="/healthz",
                port=port,
                timeout_seconds=10,
                **_edge(args),
            ),
        ]:
            register(f"{name}-catalogue-{_role(obj)}", obj, self._guarded(behind))

    def _build_definitions(self, name: str, args: InferenceGatewayArgs) -> list[pulumi.Resource]:
        if args.get("has_definitions", False):
            return []
        return [
            register(f"{name}-{role}-definition", obj, self._opts)
            for role, obj in definitions().items()
        ]

    def _build_model(
        self,
        name: str,
        args: InferenceGatewayArgs,
        model: RoutedModel,
        behind: pulumi.ResourceOptions,
    ) -> None:
        where = (args["namespace"], args["gateway_name"], args.get("hostname"))
        pools = [self._build_pool(f"{name}-{model.pool_name}", args, model)]
        canary = model.canary
        if canary is not None:
            version = gateway_canary.canary_model(model, canary)
            pools.append(self._build_pool(f"{name}-{canary.pool_name}", args, version))
        behind_pools = pulumi.ResourceOptions.merge(
            behind, pulumi.ResourceOptions(depends_on=pools)
        )
        for number, obj in enumerate(gateway_routes.routes(model, *where), 1):
            register(f"{name}-{model.pool_name}-route-{number}", obj, behind_pools)
        if canary is not None:
            pinned = gateway_canary.pinned_routes(model, canary, *where)
            for number, obj in enumerate(pinned, 1):
                register(f"{name}-{canary.pool_name}-pinned-{number}", obj, behind_pools)

    def _build_pool(
        self, name: str, args: InferenceGatewayArgs, model: RoutedModel
    ) -> pulumi.Resource:
        """Builds one version of a model behind the load balancer: all but its routes."""
        namespace = args["namespace"]
        is_closed = model.threshold_tokens is not None
        mode = FAILURE_MODES["closed" if is_closed else args.get("picker_failure", "open")]
        pool = register(name, gateway_routes.pool(model, namespace, mode), self._opts)
        # A picker is ready only once it has seen its pool, and starts only where its kinds exist.
        after_pool = pulumi.ResourceOptions.merge(
            self._opts, pulumi.ResourceOptions(depends_on=[pool, *self._definitions])
        )
        if model.is_picked:
            for obj in picker_objects(
                model.picker_name,
                namespace,
                model.pool_name,
                has_adapters=bool(model.adapters) or model.has_live_adapters,
                replicas=int(args.get("picker_replicas", 1)),
                threshold_tokens=model.threshold_tokens,
                metrics=engine(model.engine).metrics,
            ):
                register(f"{name}-picker-{_role(obj)}", obj, after_pool)
        for obj in gateway_routes.objectives(model, namespace):
            register(f"{name}-{obj['metadata']['name']}", obj, after_pool)
        for obj in gateway_routes.policies(
            model.pool_name,
            namespace,
            model.backend,
            health_path=engine(model.engine).health_path,
            port=model.target_port,
            timeout_seconds=model.timeout_seconds,
            **_edge(args),
        ):
            register(f"{name}-{_role(obj)}", obj, self._guarded(after_pool))
        return pool


def _edge(args: InferenceGatewayArgs) -> dict[str, Any]:
    """Returns what the policies of every backend have in common."""
    is_open = args["exposure"] == "external"
    return {
        "log_percent": float(args.get("log_percent", 100)),
        "security_policy": args["gateway_name"] if is_open else None,
    }


def gateway_object(args: InferenceGatewayArgs) -> Manifest:
    """Returns the Gateway; a deployment waits until the load balancer is programmed."""
    certificate = args.get("certificate")
    listener: Manifest = {
        "allowedRoutes": {"namespaces": {"from": "Same"}},
        "name": "http" if certificate is None else "https",
        "port": listener_port(args),
        "protocol": "HTTP" if certificate is None else "HTTPS",
    }
    if certificate is not None:
        listener["tls"] = {
            "mode": "Terminate",
            "options": {"networking.gke.io/cert-manager-certs": certificate},
        }
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
            "addresses": [{"type": "NamedAddress", "value": args["address_name"]}],
            "gatewayClassName": GATEWAY_CLASSES[args["exposure"]],
            "listeners": [listener],
        },
    )


def _role(obj: Manifest) -> str:
    return str(obj["kind"]).lower()
