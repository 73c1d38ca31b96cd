"""Publishes the gateway of a region to other networks with Private Service Connect."""

from typing import Annotated, TypedDict

import pulumi
from pulumi_gcp import compute
from pydantic import Field, PositiveInt

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under
from gke_inference.base.manifests import SeenObject
from gke_inference.gateway.inference_gateway import FORWARDING_RULES

_MOST_CONSUMERS = 5000
"""Maximum number of consumer projects of an attachment
(docs.cloud.google.com/vpc/docs/about-controlling-access)."""


class PublishedGatewayArgs(TypedDict):
    """Inputs of `PublishedGateway`."""

    attachment_name: str
    """Name of the service attachment."""
    consumers: Annotated[dict[str, PositiveInt], Field(min_length=1, max_length=_MOST_CONSUMERS)]
    """Maximum number of endpoints that each project may connect, by project."""
    gateway_id: pulumi.Input[str]
    """`NAMESPACE/NAME` of an internal Gateway: `gateway_id` of `InferenceGateway`."""
    nat_subnetwork: pulumi.Input[str]
    """Subnet with purpose PRIVATE_SERVICE_CONNECT, the source of connections."""
    project: str
    """Project of the Gateway."""
    region: str
    """Region of the Gateway."""


class PublishedGateway(pulumi.ComponentResource):
    """A service attachment for the load balancer of an internal Gateway.

    GKE chooses the name of the load balancer's forwarding rule and writes it to the Gateway, so the
    Gateway is read once it is programmed. Only the listed projects may connect. Consumers in other
    regions, such as a global load balancer, need a Gateway with `global_access`.
    """

    attachment: pulumi.Output[str]
    """Self link of the service attachment, for consumers."""

    def __init__(
        self, name: str, args: PublishedGatewayArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:PublishedGateway", name, {}, opts)
        args = checked(PublishedGatewayArgs, args)
        attachment_name = name_of(args, "attachment_name", "compute")
        attachment = compute.ServiceAttachment(
            name,
            connection_preference="ACCEPT_MANUAL",
            consumer_accept_lists=[
                {"connection_limit": limit, "project_id_or_num": project}
                for project, limit in sorted(args["consumers"].items())
            ],
            # the gateway would reject the PROXY protocol header as an invalid request
            enable_proxy_protocol=False,
            name=attachment_name,
            nat_subnets=[args["nat_subnetwork"]],
            project=args["project"],
            # removing a project from the list also closes its existing connections
            reconcile_connections=True,
            region=args["region"],
            target_service=self._forwarding_rule(name, args),
            opts=under(self),
        )
        self.attachment = attachment.self_link
        self.register_outputs({"attachment": self.attachment})

    def _forwarding_rule(self, name: str, args: PublishedGatewayArgs) -> pulumi.Output[str]:
        seen = SeenObject(f"{name}-gateway", "gateway", args["gateway_id"], under(self))
        where = f"projects/{args['project']}/regions/{args['region']}"
        return seen.metadata.apply(lambda known: forwarding_rule(where, known.get("annotations")))


def forwarding_rule(where: str, annotations: dict[str, str] | None) -> str:
    """Return the self link of the forwarding rule in a Gateway's annotations.

    The value is a name or, in newer releases, a path. A Gateway with several ports has several
    values, separated by commas. Ours have one port.

    Args:
        where: `projects/PROJECT/regions/REGION` of the Gateway.
        annotations: Those of the Gateway.

    Raises:
        ValueError: GKE has written none.
    """
    names = (annotations or {}).get(FORWARDING_RULES, "").split(",")
    name = names[0].strip().rpartition("/")[2]
    if not name:
        raise ValueError(
            f"the Gateway must have the annotation {FORWARDING_RULES!r}, got none: GKE writes it"
            " when it programs the load balancer; run again"
        )
    return f"https://www.googleapis.com/compute/v1/{where}/forwardingRules/{name}"
