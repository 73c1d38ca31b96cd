"""A VPC with an endpoint for the published gateway of one region, and its DNS record."""

import pulumi
from pulumi_gcp import compute, dns

config = pulumi.Config()
project, region = config.require("project"), config.get("region") or "us-central1"
attachment = config.require("attachment")  # of this region, from the platform's `attachments`
hostname = config.get("hostname") or "models.example.com"  # that of the gateways' certificate

network = compute.Network("shop", auto_create_subnetworks=False, name="shop", project=project)
subnet = compute.Subnetwork(
    "apps",
    ip_cidr_range="10.0.0.0/24",  # may overlap with the ranges of the platform
    name="apps",
    network=network.id,
    project=project,
    region=region,
)
address = compute.Address(
    "models",
    address_type="INTERNAL",
    name="models",
    project=project,
    region=region,
    subnetwork=subnet.id,
)
endpoint = compute.ForwardingRule(
    "models",
    ip_address=address.id,
    load_balancing_scheme="",  # as an endpoint requires
    name="models",
    network=network.id,
    project=project,
    recreate_closed_psc=True,  # after the platform re-created its service attachment
    region=region,
    target=attachment,
)
zone = dns.ManagedZone(
    "models",
    description="Names of the models",
    dns_name=f"{hostname}.",
    name="models",
    private_visibility_config={"networks": [{"network_url": network.id}]},
    project=project,
    visibility="private",
)
dns.RecordSet(
    "models",
    managed_zone=zone.name,
    name=zone.dns_name,
    project=project,
    rrdatas=[address.address],
    ttl=300,
    type="A",
)
pulumi.export("address", address.address)
pulumi.export("status", endpoint.psc_connection_status)
