"""One cluster with a TPU class and a bucket for weights, in a program outside the repository."""

import pulumi
import pulumi_kubernetes as kubernetes

from gke_inference import ComputeClass, InferenceCluster, ModelBucket, Network

config = pulumi.Config()
project = config.require("project")
region = config.get("region") or "us-central1"

network = Network(
    "network",
    {
        "network_name": "demo",
        "project": project,
        "regions": {
            region: {
                "nodes_cidr": "10.0.0.0/20",
                "pods_cidr": "10.64.0.0/14",
                "proxy_cidr": "10.9.0.0/23",
                "services_cidr": "10.8.0.0/20",
            }
        },
    },
)
cluster = InferenceCluster(
    "cluster",
    {
        "cluster_name": f"demo-{region}",
        "location": region,
        "mode": "standard",
        "network": network.network_id,
        "pods_range": network.pods_range_name,
        "project": project,
        "services_range": network.services_range_name,
        "subnetwork": network.subnetworks[region],
    },
)
kubernetes_provider = kubernetes.Provider("cluster", kubeconfig=cluster.kubeconfig)
ComputeClass(
    "chat",
    {
        "class_name": "chat",
        "node_service_account": cluster.node_service_account,
        "rungs": [
            {"accelerator": "tpu-v6e", "topology": "2x2", "provisioning": "on-demand"},
            {"accelerator": "tpu-v6e", "topology": "2x2", "provisioning": "spot"},
        ],
    },
    pulumi.ResourceOptions(providers=[kubernetes_provider]),
)
bucket = ModelBucket(
    "weights",
    {"bucket_name": f"{project}-weights", "location": region, "project": project},
)

pulumi.export("cluster", cluster.cluster_name)
pulumi.export("weights", bucket.url)
