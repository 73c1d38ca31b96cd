"""The stores for client usage counters and cached answers: Memorystore for Valkey."""

from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_gcp import memorystore, networkconnectivity

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under, user_labels

from .settings import StoreNodes, StoreReplicas

SERVICE_CLASS = "gcp-memorystore"
"""Service class of Memorystore for Valkey
(docs.cloud.google.com/memorystore/docs/valkey/networking)."""
_VERSION = "VALKEY_8_0"
_PRIMARY = "CONNECTION_TYPE_PRIMARY"
_DEFAULT_PORT = 6379


class CounterStoreArgs(TypedDict):
    """Inputs of `CounterStore` and `AnswerStore`."""

    instance_id: str
    """Name of the instance, 4 to 63 characters."""
    location: str
    """Region."""
    network: pulumi.Input[str]
    """VPC network of the gates, as `projects/P/global/networks/NAME`."""
    project: str
    """Project of the instance."""
    subnetworks: list[pulumi.Input[str]]
    """Subnetworks of the region from which its IP address is allocated, as resource IDs."""
    existing_policy: NotRequired[bool]
    """Whether the network already has a service connection policy of class `gcp-memorystore` in the
    region; only one is allowed. Default: false, it is created."""
    labels: NotRequired[dict[str, str]]
    """Additional labels for the instance, which also appear in billing."""
    node_type: NotRequired[StoreNodes]
    """Node type. Default: `shared-core-nano`, which has no SLA."""
    protection: NotRequired[bool]
    """Whether deletion is refused. Default: false; a new instance starts counting from zero."""
    replica_count: NotRequired[StoreReplicas]
    """Replicas that take over if a zone fails. Default: 1."""


class CounterStore(pulumi.ComponentResource):
    """Counters that all replicas of a region's gate share.

    It accepts only TLS and has no password. It stores numbers by team name, but no keys or prompts;
    anyone who can reach its IP address in the VPC can read and change them. While it is
    unavailable, each replica enforces its share of a limit.
    """

    address: pulumi.Output[str]
    """`HOST:PORT`."""
    certificates: pulumi.Output[str]
    """CA certificates in PEM format."""

    def __init__(
        self, name: str, args: CounterStoreArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:CounterStore", name, {}, opts)
        instance = _instance(self, name, args, {})
        self.address = instance.endpoints.apply(_primary)
        self.certificates = instance.managed_server_cas.apply(_authorities)
        self.register_outputs({"address": self.address, "certificates": self.certificates})


class AnswerStore(pulumi.ComponentResource):
    """Cached answers of a region's gate, and the embeddings of their questions.

    It is a separate instance, since it evicts the least recently used answer when it is full, which
    must not happen to counters. It accepts only TLS and has no password: anyone who can reach its
    IP address in the VPC can read the answers. While it is unavailable, engines generate every
    answer.
    """

    address: pulumi.Output[str]
    """`HOST:PORT`."""
    certificates: pulumi.Output[str]
    """CA certificates in PEM format."""

    def __init__(
        self, name: str, args: CounterStoreArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:AnswerStore", name, {}, opts)
        instance = _instance(self, name, args, {"maxmemory-policy": "allkeys-lru"})
        self.address = instance.endpoints.apply(_primary)
        self.certificates = instance.managed_server_cas.apply(_authorities)
        self.register_outputs({"address": self.address, "certificates": self.certificates})


def _instance(
    parent: pulumi.ComponentResource, name: str, args: CounterStoreArgs, configs: dict[str, str]
) -> memorystore.Instance:
    """Build an instance, and the connection policy for its network.

    It uses TLS without authentication: IAM authentication supports only users and service accounts
    (docs.cloud.google.com/memorystore/docs/valkey/about-iam-auth), and the gate is neither.
    """
    args = checked(CounterStoreArgs, args)
    instance_id = name_of(args, "instance_id", "compute")
    node_type = args.get("node_type", StoreNodes.NANO)
    labels = user_labels(args, "clients")
    needed: list[pulumi.Resource] = []
    if not args.get("existing_policy", False):
        needed.append(
            networkconnectivity.ServiceConnectionPolicy(
                f"{name}-connections",
                labels=labels,
                location=args["location"],
                name=instance_id,
                network=args["network"],
                project=args["project"],
                psc_config={"subnetworks": args["subnetworks"]},
                service_class=SERVICE_CLASS,
                opts=under(parent),
            )
        )
    return memorystore.Instance(
        name,
        authorization_mode="AUTH_DISABLED",
        deletion_protection_enabled=args.get("protection", False),
        desired_auto_created_endpoints=[
            {"network": args["network"], "project_id": args["project"]}
        ],
        engine_configs=configs or None,
        engine_version=_VERSION,
        instance_id=instance_id,
        labels=labels,
        location=args["location"],
        mode="CLUSTER_DISABLED",
        node_type=node_type.value.upper().replace("-", "_"),
        project=args["project"],
        replica_count=args.get("replica_count", 1),
        shard_count=1,
        transit_encryption_mode="SERVER_AUTHENTICATION",
        opts=under(parent, depends_on=needed),
    )


def _primary(endpoints: Sequence[Any] | None) -> str:
    """Return the primary endpoint of an instance."""
    connections: list[dict[str, Any]] = [
        connection["psc_auto_connection"]
        for endpoint in endpoints or ()
        for connection in endpoint["connections"] or ()
    ]
    primary = [one for one in connections if one.get("connection_type") == _PRIMARY]
    for found in primary or connections:
        if found.get("ip_address"):
            return f"{found['ip_address']}:{found.get('port') or _DEFAULT_PORT}"
    raise ValueError("the instance must have an endpoint in the network, got none")


def _authorities(found: Sequence[Any] | None) -> str:
    """Return the CA certificates of an instance, concatenated."""
    made: str = "\n".join(
        certificate.strip()
        for authority in found or ()
        for chain in authority["ca_certs"] or ()
        for certificate in chain["certificates"] or ()
    )
    if not made:
        raise ValueError("the instance must have certificates of its authorities, got none")
    return made
