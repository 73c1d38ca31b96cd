"""The certificate of a gateway, with DNS authorization in Cloud DNS."""

from typing import NotRequired, TypedDict

import pulumi
from pulumi_gcp import certificatemanager, dns

from gke_inference.base.checked import checked
from gke_inference.base.inputs import under, user_labels

from .settings import TTL_SECONDS, TtlSeconds


class GatewayCertificateArgs(TypedDict):
    """Inputs of `GatewayCertificate`."""

    certificate_name: str
    """Name of the certificate and its DNS authorization, as referenced by the gateway."""
    hostname: str
    """Hostname of the certificate."""
    location: str
    """Region of the gateway, or `global`. A regional gateway accepts only certificates of its
    region."""
    project: pulumi.Input[str]
    """Project of the gateway."""
    zone: pulumi.Input[str]
    """Name of the Cloud DNS zone that contains the hostname. It must be public, so that Google's
    certificate authority can look up the record."""
    all_regions: NotRequired[bool]
    """Whether the certificate is for a `FleetGateway`, whose load balancer has proxies in several
    regions. Only with the location `global`. Default: false."""
    labels: NotRequired[dict[str, str]]
    """Additional labels for the certificate."""
    ttl_seconds: NotRequired[TtlSeconds]
    """TTL of the record, in seconds. Default: 300."""
    zone_project: NotRequired[pulumi.Input[str]]
    """Project of the zone. Default: the gateway's."""


class GatewayCertificate(pulumi.ComponentResource):
    """A Google-managed certificate, renewed as long as its DNS record exists.

    It needs no load balancer, so it is available when the gateway is created. The certificate is
    PROVISIONING until Google has seen the record, which takes minutes.
    """

    certificate_name: pulumi.Output[str]
    """Name of the certificate, for the gateway. Known once the record exists."""
    record_name: pulumi.Output[str]
    """Name of the record that authorizes it."""

    def __init__(
        self, name: str, args: GatewayCertificateArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:GatewayCertificate", name, {}, opts)
        args = checked(GatewayCertificateArgs, args)
        ttl = args.get("ttl_seconds", TTL_SECONDS)
        is_wide = args.get("all_regions", False)
        if is_wide and args["location"] != "global":
            message = f"must be 'global' with allRegions, got {args['location']!r}"
            raise pulumi.InputPropertyError("location", message)
        authorization = certificatemanager.DnsAuthorization(
            name,
            domain=args["hostname"],
            labels=user_labels(args, "gateway"),
            location=args["location"],
            name=args["certificate_name"],
            project=args["project"],
            # with fixed records, certificates of two regions would need the same record
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
            scope="ALL_REGIONS" if is_wide else None,
            opts=under(self, depends_on=[record]),
        )
        self.certificate_name = certificate.name
        self.record_name = record.name
        self.register_outputs(
            {"certificateName": self.certificate_name, "recordName": self.record_name}
        )
