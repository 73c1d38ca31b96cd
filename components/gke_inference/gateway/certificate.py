"""The certificate of a gateway, authorized by a record in Cloud DNS."""

from typing import NotRequired, TypedDict

import pulumi
from pulumi_gcp import certificatemanager, dns

from gke_inference.base.inputs import under, user_labels, whole


class GatewayCertificateArgs(TypedDict):
    """Inputs of `GatewayCertificate`."""

    certificate_name: str
    """Name of the certificate and of its authorization, as the gateway names it."""
    hostname: str
    """Host name that it proves."""
    location: str
    """Region of the gateway: a regional gateway takes certificates of its region only."""
    project: pulumi.Input[str]
    """Project of the gateway."""
    zone: pulumi.Input[str]
    """Name of the Cloud DNS zone that has the host name. It must be public: Google's certificate
    authority looks the record up."""
    labels: NotRequired[dict[str, str]]
    """More labels for the certificate."""
    ttl_seconds: NotRequired[int]
    """How long others may remember the record, 5 to 86400. Default 300."""
    zone_project: NotRequired[pulumi.Input[str]]
    """Project of the zone. Default: the gateway's."""


class GatewayCertificate(pulumi.ComponentResource):
    """A regional certificate that Google issues and renews while one DNS record stays.

    No load balancer is needed first, so a gateway finds the certificate when it is made. Until
    Google has seen the record, which takes minutes, the certificate is PROVISIONING.
    """

    certificate_name: pulumi.Output[str]
    """Name of the certificate, for the gateway. It is known once the record is there."""
    record_name: pulumi.Output[str]
    """Name of the record that authorizes it."""

    def __init__(
        self, name: str, args: GatewayCertificateArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:GatewayCertificate", name, {}, opts)
        ttl = whole(args, "ttl_seconds", 300, least=5, most=86_400)
        authorization = certificatemanager.DnsAuthorization(
            name,
            domain=args["hostname"],
            labels=user_labels(args, "gateway"),
            location=args["location"],
            name=args["certificate_name"],
            project=args["project"],
            # with fixed records, certificates of two regions would ask for records of one name
            type="PER_PROJECT_RECORD",
            opts=under(self),
        )
        asked = authorization.dns_resource_records.apply(lambda records: records[0])
        record = dns.RecordSet(
            f"{name}-authorization",
            managed_zone=args["zone"],
            name=asked.apply(lambda one: str(one.name)),
            project=args.get("zone_project") or args["project"],
            rrdatas=[asked.apply(lambda one: str(one.data))],
            ttl=ttl,
            type=asked.apply(lambda one: str(one.type)),
            opts=under(self),
        )
        certificate = certificatemanager.Certificate(
            name,
            labels=user_labels(args, "gateway"),
            location=args["location"],
            managed={"dns_authorizations": [authorization.id], "domains": [args["hostname"]]},
            name=args["certificate_name"],
            project=args["project"],
            opts=under(self, depends_on=[record]),
        )
        self.certificate_name = certificate.name
        self.record_name = record.name
        self.register_outputs(
            {"certificateName": self.certificate_name, "recordName": self.record_name}
        )
