"""A Shared VPC with the resources that a platform needs, and a bucket of weights."""

import pulumi
from pulumi_gcp import compute, projects, storage

HOST, TENANT, NUMBER = "acme-network-host", "acme-inference-tenant", "161803398874"
REGION = "us-central1"
GKE = f"serviceAccount:service-{NUMBER}@container-engine-robot.iam.gserviceaccount.com"
APIS = f"serviceAccount:{NUMBER}@cloudservices.gserviceaccount.com"

host = compute.SharedVPCHostProject("host", project=HOST)
compute.SharedVPCServiceProject(
    "tenant",
    host_project=HOST,
    service_project=TENANT,
    opts=pulumi.ResourceOptions(depends_on=[host]),
)
network = compute.Network(
    "shared", auto_create_subnetworks=False, name="shared", project=HOST, routing_mode="REGIONAL"
)
subnet = compute.Subnetwork(
    "inference",
    ip_cidr_range="10.0.0.0/20",
    name="inference",
    network=network.id,
    private_ip_google_access=True,
    project=HOST,
    region=REGION,
    secondary_ip_ranges=[
        {"range_name": "inference-pods", "ip_cidr_range": "10.16.0.0/14"},
        {"range_name": "inference-services", "ip_cidr_range": "10.1.0.0/20"},
    ],
)
compute.Subnetwork(
    "proxies",
    ip_cidr_range="10.2.0.0/23",
    name="proxies",
    network=network.id,
    project=HOST,
    purpose="REGIONAL_MANAGED_PROXY",
    region=REGION,
    role="ACTIVE",
)
router = compute.Router("router", name="router", network=network.id, project=HOST, region=REGION)
compute.RouterNat(
    "nat",
    name="nat",
    nat_ip_allocate_option="AUTO_ONLY",
    project=HOST,
    region=REGION,
    router=router.name,
    source_subnetwork_ip_ranges_to_nat="ALL_SUBNETWORKS_ALL_IP_RANGES",
)
compute.Firewall(
    "load-balancing",
    allows=[{"ports": ["8000-8001", "8080", "9002-9005", "9010-9011"], "protocol": "tcp"}],
    direction="INGRESS",
    name="load-balancing",
    network=network.id,
    project=HOST,
    source_ranges=["35.191.0.0/16", "130.211.0.0/22", "10.2.0.0/23"],
)
for name, member in {"gke": GKE, "apis": APIS}.items():
    compute.SubnetworkIAMMember(
        f"{name}-uses-subnet",
        member=member,
        project=HOST,
        region=REGION,
        role="roles/compute.networkUser",
        subnetwork=subnet.name,
    )
projects.IAMMember(
    "gke-acts-in-host", member=GKE, project=HOST, role="roles/container.hostServiceAgentUser"
)
storage.Bucket(
    "weights",
    force_destroy=True,  # for this example only: deletes the bucket with its weights
    location=REGION.upper(),
    name=f"acme-weights-{REGION}",
    project=TENANT,
    public_access_prevention="enforced",
    uniform_bucket_level_access=True,
)
