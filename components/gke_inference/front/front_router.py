"""Body-based routing in front of regions: a service on Cloud Run, behind a global front."""

import json
from typing import Annotated, Any, Final, NotRequired, TypedDict

import pulumi
from pulumi_gcp import cloudrunv2, compute, projects, serviceaccount
from pydantic import Field

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under, user_labels
from gke_inference.catalogue.load_balancing import HTTPS_PORT
from gke_inference.catalogue.nearness import by_nearness
from gke_inference.catalogue.versions import image
from gke_inference.gateway.edge import LARGEST_DECLARED_BYTES
from gke_inference.guardrails.settings import Failure, GuardTimeoutMs
from gke_inference.intent.cloud_run import IdleInstances, MostInstances
from gke_inference.intent.settings import MAX_REQUEST_SECONDS, RequestSeconds
from gke_inference.settings.fields import Hostname, Port, RegionName

from .settings import ROUTER_CONCURRENCY, ROUTER_GIB, ROUTER_VCPUS, RouterConcurrency

_ARMOR: Final = "roles/modelarmor.user"
_PORT: Final = 8080
_VARIABLE: Final = "FRONT"
_Regions = Annotated[list[RegionName], Field(min_length=1)]


class FrontModelArgs(TypedDict):
    """Where a model answers."""

    regions: _Regions
    """Regions that serve it."""
    fallback: NotRequired[str]
    """Model that is requested in its place while no region serves it. Default: none."""


class RouterGuardArgs(TypedDict):
    """Model Armor in front of the regions."""

    failure: Failure
    """While there is no verdict, `closed` rejects requests with 503, and `open` lets them pass."""
    template_id: str
    """Name of the template, which must exist in every region: `template_id` of `ModelArmor`."""
    timeout_ms: GuardTimeoutMs
    """Maximum time to wait for a verdict."""


class RouterRegionArgs(TypedDict):
    """One region of a `FrontRouter`."""

    attachment: pulumi.Input[str]
    """Service attachment of its gateway: `attachment` of `PublishedGateway`."""
    egress_subnetwork: pulumi.Input[str]
    """Subnetwork of the service's instances: from `egress_subnetworks` of `FrontNetwork`."""
    subnetwork: pulumi.Input[str]
    """Subnetwork of the endpoint for the gateway: from `subnetworks` of `FrontNetwork`."""


class FrontRouterArgs(TypedDict):
    """Inputs of `FrontRouter`."""

    account_id: str
    """ID of the services' own service account, which has no role without `guard`."""
    gateway_port: Port
    """Port of the gateways, which speak HTTPS."""
    hostname: Hostname
    """Hostname in the certificate of the gateways."""
    network: pulumi.Input[str]
    """VPC of the subnetworks: `network_id` of `FrontNetwork`."""
    project: str
    """Project of all resources."""
    regions: Annotated[dict[str, RouterRegionArgs], Field(min_length=1)]
    """Regions with a gateway. Each gets a service."""
    service_name: str
    """Name of the services and prefix of the endpoints' names."""
    concurrency: NotRequired[RouterConcurrency]
    """Requests that one instance passes on at a time. Default: 200."""
    drained: NotRequired[list[str]]
    """Regions that get no requests. Default: none."""
    guard: NotRequired[RouterGuardArgs]
    """Model Armor template that checks prompts before they reach a region. Default: none."""
    image: NotRequired[str]
    """Image of the relay, which Cloud Run can pull. Default: that of the lock."""
    labels: NotRequired[dict[str, str]]
    """Additional labels."""
    max_instances: NotRequired[MostInstances]
    """Maximum number of instances in each region. Default: 10."""
    min_instances: NotRequired[IdleInstances]
    """Instances that always run in each region. Default: 1."""
    models: NotRequired[dict[str, FrontModelArgs]]
    """Models that some regions do not serve, or that have a fallback. All others are in every
    region. Default: none."""
    timeout_seconds: NotRequired[RequestSeconds]
    """Maximum duration of a request in seconds, streams included. Default: 3600."""


class FrontRouter(pulumi.ComponentResource):
    """Services that read the model of a request and send it to a region that serves the model.

    A global external Application Load Balancer cannot choose a backend by the body: its traffic
    extensions run after the choice, and its edge extensions see only headers
    (docs.cloud.google.com/service-extensions/docs/lb-extensions-overview). So the services are its
    backends, outside all clusters. They reach the gateways through Private Service Connect
    endpoints, and have no credential for models: the gate of a region checks each request. With
    `guard`, they ask Model Armor about each prompt before that.
    """

    services: pulumi.Output[dict[str, str]]
    """Name of the service, by region: `routers` of `GlobalFront`."""

    def __init__(
        self, name: str, args: FrontRouterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:FrontRouter", name, {}, opts)
        args = self._args = checked(FrontRouterArgs, args)
        self._check_regions()
        account = serviceaccount.Account(
            name,
            account_id=name_of(args, "account_id", "service_account"),
            display_name="Routes requests to regions",
            project=args["project"],
            opts=under(self),
        )
        name_of(args, "service_name", "run_service")
        ready: list[pulumi.Resource] = [account]
        if "guard" in args:
            ready.append(
                projects.IAMMember(
                    f"{name}-guard",
                    member=f"serviceAccount:{self._email}",
                    project=args["project"],
                    role=_ARMOR,
                    opts=under(self, depends_on=[account]),
                )
            )
        addresses = {
            region: self._build_endpoint(name, region) for region in sorted(args["regions"])
        }
        services = {
            region: self._build_service(name, region, addresses, ready).name
            for region in sorted(args["regions"])
        }
        self.services = pulumi.Output.all(**services)
        self.register_outputs({"services": self.services})

    @property
    def _email(self) -> str:
        return f"{self._args['account_id']}@{self._args['project']}.iam.gserviceaccount.com"

    def _check_regions(self) -> None:
        args = self._args
        known = ", ".join(sorted(args["regions"]))
        lists = {f"models.{name}.regions": each["regions"] for name, each in self._models().items()}
        for path, regions in {"drained": args.get("drained", []), **lists}.items():
            for region in regions:
                if region not in args["regions"]:
                    message = f"must be one of regions ({known}), got {region!r}"
                    raise pulumi.InputPropertyError(path, message)
        if set(args.get("drained", [])) >= set(args["regions"]):
            raise pulumi.InputPropertyError("drained", f"must leave a region, got {known}")

    def _models(self) -> dict[str, FrontModelArgs]:
        return self._args.get("models", {})

    def _build_endpoint(self, name: str, region: str) -> pulumi.Output[str]:
        """Build the endpoint for a region's gateway, which all services reach. Return its IP."""
        args, joined = self._args, self._args["regions"][region]
        physical = f"{args['service_name']}-{region}"
        address = compute.Address(
            f"{name}-{region}",
            address_type="INTERNAL",
            name=physical,
            project=args["project"],
            region=region,
            subnetwork=joined["subnetwork"],
            opts=under(self),
        )
        rule = compute.ForwardingRule(
            f"{name}-{region}",
            allow_psc_global_access=True,
            ip_address=address.id,
            load_balancing_scheme="",  # as an endpoint requires
            name=physical,
            network=args["network"],
            project=args["project"],
            region=region,
            target=joined["attachment"],
            opts=under(self),
        )
        return pulumi.Output.all(address.address, rule.id).apply(lambda both: str(both[0]))

    def _build_service(
        self,
        name: str,
        region: str,
        addresses: dict[str, pulumi.Output[str]],
        ready: list[pulumi.Resource],
    ) -> cloudrunv2.Service:
        args, joined = self._args, self._args["regions"][region]
        settings = pulumi.Output.all(**addresses).apply(lambda found: self._settings(region, found))
        container: dict[str, Any] = {
            "args": [
                f"--config-variable={_VARIABLE}",
                f"--port={_PORT}",
                f"--max-body-bytes={LARGEST_DECLARED_BYTES}",
                "--drain=0s",  # Cloud Run sends no requests after the signal
            ],
            "envs": [{"name": _VARIABLE, "value": settings}],
            "image": args.get("image") or image("relay").reference,
            "ports": {"container_port": _PORT},
            "resources": {
                "cpu_idle": False,
                "limits": {"cpu": str(ROUTER_VCPUS), "memory": f"{ROUTER_GIB}Gi"},
            },
            "startup_probe": {"http_get": {"path": "/health", "port": _PORT}},
        }
        template: Any = {
            "containers": [container],
            "execution_environment": "EXECUTION_ENVIRONMENT_GEN2",
            "max_instance_request_concurrency": args.get("concurrency", ROUTER_CONCURRENCY),
            "scaling": {
                "max_instance_count": args.get("max_instances", 10),
                "min_instance_count": args.get("min_instances", 1),
            },
            "service_account": self._email,
            "timeout": f"{args.get('timeout_seconds', MAX_REQUEST_SECONDS)}s",
            "vpc_access": {
                "egress": "PRIVATE_RANGES_ONLY",
                "network_interfaces": [
                    {"network": args["network"], "subnetwork": joined["egress_subnetwork"]}
                ],
            },
        }
        return cloudrunv2.Service(
            f"{name}-{region}",
            deletion_protection=False,  # it has no data
            ingress="INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER",
            # clients have the keys of the gate, not of Cloud Run
            invoker_iam_disabled=True,
            labels=user_labels(args, "front-router"),
            location=region,
            name=args["service_name"],
            project=args["project"],
            template=template,
            opts=under(self, depends_on=ready),
        )

    def _settings(self, region: str, addresses: dict[str, str]) -> str:
        """Return the configuration of a region's service."""
        args = self._args
        drained = set(args.get("drained", []))
        port = args["gateway_port"]
        suffix = "" if port == HTTPS_PORT else f":{port}"

        def near(regions: list[str]) -> list[str]:
            return by_nearness(region, [each for each in regions if each not in drained])

        models = {name: near(each["regions"]) for name, each in self._models().items()}
        guard = args.get("guard")
        checked_by = guard and {
            "guard": {
                "fail_open": guard["failure"] is Failure.OPEN,
                "template": f"projects/{args['project']}/locations/{region}/templates/"
                f"{guard['template_id']}",
                "timeout_ms": guard["timeout_ms"],
            }
        }
        return json.dumps(
            {
                "front": {
                    **(checked_by or {}),
                    "models": {
                        name: {
                            "fallback": self._models()[name].get("fallback", ""),
                            "regions": regions,
                        }
                        for name, regions in models.items()
                        if regions
                    },
                    "near": near(sorted(args["regions"])),
                    "regions": {
                        each: f"https://{address}{suffix}" for each, address in addresses.items()
                    },
                    "server_name": args["hostname"],
                }
            },
            sort_keys=True,
        )
