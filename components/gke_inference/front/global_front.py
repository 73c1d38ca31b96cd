"""One IP address for the gateways of all regions: a global external Application Load Balancer."""

from typing import Annotated, NotRequired, TypedDict

import pulumi
from pulumi_gcp import certificatemanager, compute
from pydantic import Field

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import name_of, under, user_labels
from gke_inference.catalogue.load_balancing import HTTPS_PORT, REDIRECT_PORT
from gke_inference.gateway.settings import (
    LOG_PERCENT,
    REQUESTS_PER_MINUTE,
    LogPercent,
    RequestsPerMinute,
)
from gke_inference.intent.settings import MAX_REQUEST_SECONDS, RequestSeconds
from gke_inference.settings.fields import Port

from .client_certificates import CERTIFICATE_HEADERS, check_authorities, client_validation
from .edge import security_policy, ssl_policy
from .people import FrontPeopleArgs, check_people, let_members_in, people_matcher
from .routes import OUTLIER_DETECTION, path_matcher


class FrontRegionArgs(TypedDict):
    """One region behind a `GlobalFront`."""

    attachment: pulumi.Input[str]
    """Service attachment of its gateway: `attachment` of `PublishedGateway`."""
    subnetwork: pulumi.Input[str]
    """Subnetwork of the region from which the front connects, as a self link or path:
    from `subnetworks` of `FrontNetwork`."""


class GlobalFrontArgs(TypedDict):
    """Inputs of `GlobalFront`."""

    answering: Annotated[list[str], Field(min_length=1)]
    """Regions of `regions` behind the plain URL, which serve every model."""
    certificate: str
    """Name of a global Certificate Manager certificate that covers all hostnames."""
    front_name: str
    """Prefix of the names of the load balancer's parts, at most 50 characters."""
    gateway_port: Port
    """Port of the gateways, which speak HTTPS."""
    network: pulumi.Input[str]
    """VPC of the subnetworks, not that of a published gateway: `network_id` of `FrontNetwork`."""
    project: str
    """Project of the load balancer."""
    regions: dict[str, FrontRegionArgs]
    """All regions with a gateway. A region in no list is drained."""
    client_authorities: NotRequired[list[str]]
    """Certificates of the authorities of client certificates, each in PEM format. Requests without
    a valid certificate still pass: the gates of the regions decide (`ClientGate`). Default: no
    client certificates are requested."""
    labels: NotRequired[dict[str, str]]
    """Additional labels."""
    log_percent: NotRequired[LogPercent]
    """Percentage of requests in the access log. Default: 100."""
    models: NotRequired[dict[str, list[str]]]
    """Regions of each model that only some regions serve, available under `/models/NAME/v1`."""
    people: NotRequired[FrontPeopleArgs]
    """People who sign in with Google under a hostname of their own, which leads to the regions of
    `answering`. Default: none."""
    port: NotRequired[Port]
    """Port that it listens on. Default: 443, with a redirect from HTTP on port 80."""
    routers: NotRequired[dict[str, pulumi.Input[str]]]
    """Services on Cloud Run behind the plain URL, by region: `services` of `FrontRouter`. Default:
    the regions of `answering`."""
    requests_per_minute: NotRequired[RequestsPerMinute]
    """Requests per minute that one IP address may send. Further requests are rejected with 429.
    Default: 600."""
    timeout_seconds: NotRequired[RequestSeconds]
    """Maximum duration of a request in seconds, streams included. Default: 3600."""


class GlobalFront(pulumi.ComponentResource):
    """A global load balancer that routes each client to the nearest region that answers.

    Private Service Connect connects it to the internal gateway of each region, which reads the
    model from the request and picks the replica. Outlier detection excludes a region whose gateway
    fails, and a request that reached no gateway is retried in another region.
    """

    address: pulumi.Output[str]
    """The global IP address."""

    def __init__(
        self, name: str, args: GlobalFrontArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:GlobalFront", name, {}, opts)
        args = checked(GlobalFrontArgs, args)
        self._front = name_of(args, "front_name", "compute")
        self._project = args["project"]
        self._timeout = args.get("timeout_seconds", MAX_REQUEST_SECONDS)
        self._limit = args.get("requests_per_minute", REQUESTS_PER_MINUTE)
        self._port = args.get("port", HTTPS_PORT)
        _check_regions(args)
        if "client_authorities" in args:
            check_authorities(args["client_authorities"])
        if "people" in args:
            keep(check_people(args["people"]))
        address = compute.GlobalAddress(
            f"{name}-address", name=self._front, project=self._project, opts=under(self)
        )
        url_map = self._build_routes(name, args)
        self._build_https(name, args, address, url_map)
        self._build_redirect(name, address)
        self.address = address.address
        self.register_outputs({"address": self.address})

    def _build_routes(self, name: str, args: GlobalFrontArgs) -> "compute.URLMap":
        """Build the backends and the URL map."""
        guard = security_policy(
            f"{name}-guard",
            self._front,
            project=self._project,
            requests_per_minute=self._limit,
            opts=under(self),
        )
        routers = args.get("routers")
        joined = {region for regions in args.get("models", {}).values() for region in regions}
        if routers is None or "people" in args:
            joined.update(args["regions"])
        groups = {region: self._build_group(name, region, args) for region in sorted(joined)}
        headers = list(CERTIFICATE_HEADERS) if "client_authorities" in args else None

        percent = args.get("log_percent", LOG_PERCENT)

        def service(
            suffix: str, regions: list[str], *, signs_in: bool = False
        ) -> "compute.BackendService":
            return compute.BackendService(
                f"{name}{suffix}",
                # These backends have no scaler and no target capacity. The provider adds its
                # defaults, UTILIZATION and 1, which say the same as none.
                backends=[{"group": groups[region].id} for region in regions],
                custom_request_headers=headers,
                # without a client ID, Google manages the OAuth client
                iap=compute.BackendServiceIapArgsDict(enabled=True) if signs_in else None,
                load_balancing_scheme="EXTERNAL_MANAGED",
                log_config={"enable": percent > 0, "sample_rate": percent / 100},
                name=f"{self._front}{suffix}",
                outlier_detection=OUTLIER_DETECTION,
                project=self._project,
                protocol="HTTPS",
                security_policy=guard.id,
                timeout_sec=self._timeout,
                opts=under(self),
            )

        if routers is None:
            every = service("", args["answering"])
        else:
            every = compute.BackendService(
                f"{name}-router",
                backends=[
                    {"group": self._build_router_group(name, region, routers[region]).id}
                    for region in sorted(routers)
                ],
                custom_request_headers=headers,
                load_balancing_scheme="EXTERNAL_MANAGED",
                log_config={"enable": percent > 0, "sample_rate": percent / 100},
                name=f"{self._front}-router",
                outlier_detection=OUTLIER_DETECTION,
                project=self._project,
                # no timeout: that of the service applies (docs.cloud.google.com/load-balancing
                # /docs/negs/serverless-neg-concepts, limitations)
                protocol="HTTPS",
                security_policy=guard.id,
                opts=under(self),
            )
        models = {
            model: service(f"-{_as_object(model)}", regions).id
            for model, regions in args.get("models", {}).items()
        }
        host_rules: list[compute.URLMapHostRuleArgsDict] = [
            {"hosts": ["*"], "path_matcher": "models"}
        ]
        matchers = [path_matcher(every.id, models)]
        people = args.get("people")
        if people is not None:
            own = service("-people", args["answering"], signs_in=True)
            host_rules.append({"hosts": [people["hostname"]], "path_matcher": "people"})
            matchers.append(people_matcher(own.id, people))
            let_members_in(f"{name}-people", own, people, self._project, under(self))
        return compute.URLMap(
            name,
            default_service=every.id,
            host_rules=host_rules,
            name=self._front,
            path_matchers=matchers,
            project=self._project,
            opts=under(self),
        )

    def _build_group(
        self, name: str, region: str, args: GlobalFrontArgs
    ) -> "compute.RegionNetworkEndpointGroup":
        joined = args["regions"][region]
        return compute.RegionNetworkEndpointGroup(
            # Neither name may be that of a group in another network: its backend service blocks its
            # deletion, so the new group must exist before the old one goes.
            f"{name}-{region}-psc",
            name=f"{self._front}-{region}-psc",
            network=args["network"],
            network_endpoint_type="PRIVATE_SERVICE_CONNECT",
            project=self._project,
            psc_data={"producer_port": str(args["gateway_port"])},
            psc_target_service=joined["attachment"],
            region=region,
            subnetwork=joined["subnetwork"],
            opts=under(self),
        )

    def _build_router_group(
        self, name: str, region: str, service: pulumi.Input[str]
    ) -> "compute.RegionNetworkEndpointGroup":
        return compute.RegionNetworkEndpointGroup(
            f"{name}-{region}-router",
            cloud_run={"service": service},
            name=f"{self._front}-{region}-router",
            network_endpoint_type="SERVERLESS",
            project=self._project,
            region=region,
            opts=under(self),
        )

    def _build_https(
        self,
        name: str,
        args: GlobalFrontArgs,
        address: "compute.GlobalAddress",
        url_map: "compute.URLMap",
    ) -> None:
        labels = user_labels(args, "front")
        certificates = certificatemanager.CertificateMap(
            name, labels=labels, name=self._front, project=self._project, opts=under(self)
        )
        where = f"projects/{self._project}/locations/global/certificates"
        entry = certificatemanager.CertificateMapEntry(
            name,
            certificates=[f"{where}/{args['certificate']}"],
            labels=labels,
            map=certificates.name,
            matcher="PRIMARY",  # for any hostname: the certificate covers all of them
            name=self._front,
            project=self._project,
            opts=under(self),
        )
        tls = ssl_policy(f"{name}-tls", self._front, project=self._project, opts=under(self))
        proxy = compute.TargetHttpsProxy(
            name,
            certificate_map=certificates.id.apply("//certificatemanager.googleapis.com/{}".format),
            name=self._front,
            project=self._project,
            server_tls_policy=self._build_validation(name, args),
            ssl_policy=tls.id,
            url_map=url_map.id,
            opts=under(self, depends_on=[entry]),
        )
        self._build_rule(name, "", address, proxy.id, self._port)

    def _build_validation(self, name: str, args: GlobalFrontArgs) -> pulumi.Output[str] | None:
        if "client_authorities" not in args:
            return None
        return client_validation(
            name,
            self._front,
            args["client_authorities"],
            labels=user_labels(args, "front"),
            project=self._project,
            opts=under(self),
        )

    def _build_redirect(self, name: str, address: "compute.GlobalAddress") -> None:
        """Build the redirect from HTTP to HTTPS, for the default port only."""
        if self._port != HTTPS_PORT:
            return
        redirect = compute.URLMap(
            f"{name}-redirect",
            # The redirect keeps the request's method and body.
            default_url_redirect={
                "https_redirect": True,
                "redirect_response_code": "PERMANENT_REDIRECT",
                "strip_query": False,
            },
            name=f"{self._front}-redirect",
            project=self._project,
            opts=under(self),
        )
        proxy = compute.TargetHttpProxy(
            f"{name}-redirect",
            name=f"{self._front}-redirect",
            project=self._project,
            url_map=redirect.id,
            opts=under(self),
        )
        self._build_rule(name, "-redirect", address, proxy.id, REDIRECT_PORT)

    def _build_rule(
        self,
        name: str,
        suffix: str,
        address: "compute.GlobalAddress",
        target: pulumi.Input[str],
        port: int,
    ) -> None:
        compute.GlobalForwardingRule(
            f"{name}{suffix}",
            ip_address=address.address,
            ip_protocol="TCP",
            load_balancing_scheme="EXTERNAL_MANAGED",
            name=f"{self._front}{suffix}",
            port_range=str(port),
            project=self._project,
            target=target,
            opts=under(self),
        )


def _check_regions(args: GlobalFrontArgs) -> None:
    lists = {"answering": args["answering"], **_of_models(args)}
    for path, regions in lists.items():
        if not regions:
            message = "must name a region or more, got none"
            raise pulumi.InputPropertyError(path, message)
        for region in regions:
            if region not in args["regions"]:
                known = ", ".join(sorted(args["regions"]))
                message = f"must be one of regions ({known}), got {region!r}"
                raise pulumi.InputPropertyError(path, message)


def _of_models(args: GlobalFrontArgs) -> dict[str, list[str]]:
    return {f"models.{name}": regions for name, regions in args.get("models", {}).items()}


def _as_object(model: str) -> str:
    return model.replace(".", "-").replace("_", "-")
