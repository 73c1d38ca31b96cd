"""A program over the gcp provider; SHAPE picks a variant."""

import os

import pulumi
import pulumi_gcp as gcp

shape = os.environ.get("SHAPE", "first")
network = gcp.compute.Network("net", name="acme-net", auto_create_subnetworks=False)
subnetwork = gcp.compute.Subnetwork(
    "sub",
    name="acme-sub",
    network=network.id,
    region="us-east5",
    ip_cidr_range="10.0.0.0/20" if shape == "first" else "10.0.0.0/19",
)
account = gcp.serviceaccount.Account("nodes", account_id="acme-nodes")
bucket = gcp.storage.Bucket("weights", name="acme-weights", location="us-east5")
gcp.storage.BucketObject("readme", bucket=bucket.name, name="README", content="hello")
gcp.storage.BucketIAMMember(
    "reader", bucket=bucket.name, role="roles/storage.objectViewer", member=account.member
)
address = gcp.compute.Address(
    "ip", name="gateway" if shape == "first" else "gateway-2", region="us-east5"
)
if shape == "broken":
    gcp.compute.Router("router", network=network.id, region="us-east5", bgp={"asn": 1})
pulumi.export("address", address.address)
pulumi.export("email", account.email)
pulumi.export("project", gcp.organizations.get_project().number)
if shape.startswith("images"):
    from images import deliver  # pyrefly: ignore[missing-import] - beside this file, from where it runs

    deliver(audit_only=shape == "images-audit")
