"""A cluster, a compute class and a model behind a gateway, in a program outside the repository."""

import pulumi
import pulumi_kubernetes as kubernetes

from gke_inference import (
    ClusterMode,
    ComputeClass,
    EngineSettings,
    Exposure,
    InferenceCluster,
    InferenceGateway,
    ModelBucket,
    ModelServer,
    Network,
    Provisioning,
    RegionRanges,
    ReplicaRange,
    RungArgs,
    ServingNamespace,
    Size,
    WorkloadIdentity,
)

NAMESPACE = "serving"
RUNGS = [
    RungArgs(accelerator="nvidia-l4", count=1, provisioning=Provisioning.ON_DEMAND),
    RungArgs(accelerator="nvidia-l4", count=1, provisioning=Provisioning.SPOT),
]

config = pulumi.Config()
project = config.require("project")
region = config.get("region") or "us-central1"

network = Network(
    "network",
    {
        "network_name": "demo",
        "project": project,
        "regions": {
            region: RegionRanges(
                nodes="10.0.0.0/20",
                pods="10.64.0.0/14",
                proxies="10.9.0.0/23",
                services="10.8.0.0/20",
            )
        },
    },
)
cluster = InferenceCluster(
    "cluster",
    {
        "cluster_name": f"demo-{region}",
        "deletion_protection": False,
        "location": region,
        "mode": ClusterMode.STANDARD,
        "network": network.network_id,
        "pods_range": network.pods_range_name,
        "project": project,
        "services_range": network.services_range_name,
        "subnetwork": network.subnetworks[region],
    },
    pulumi.ResourceOptions(depends_on=[network]),
)
bucket = ModelBucket(
    "weights",
    {"bucket_name": f"{project}-weights", "location": region, "project": project},
)

kubernetes_provider = kubernetes.Provider(
    "cluster",
    kubeconfig=cluster.kubeconfig,
    opts=pulumi.ResourceOptions(depends_on=[cluster]),
)
inside = pulumi.ResourceOptions(providers=[kubernetes_provider])
compute_class = ComputeClass(
    "chat",
    {
        "class_name": "chat",
        "node_service_account": cluster.node_service_account,
        "rungs": RUNGS,
    },
    inside,
)
namespace = ServingNamespace("serving", {"namespace": NAMESPACE}, inside)
behind = pulumi.ResourceOptions.merge(
    inside, pulumi.ResourceOptions(depends_on=[namespace, compute_class])
)
identity = WorkloadIdentity(
    "chat",
    {
        "bucket_roles": {"weights": {"access": "read", "bucket": bucket.bucket_name}},
        "namespace": NAMESPACE,
        "project": project,
        "project_number": config.require("projectNumber"),
        "service_account_name": "chat",
    },
    behind,
)
server = ModelServer(
    "chat",
    {
        "compute_classes": {"gpu": "chat"},
        "context": 8192,
        "model": "chat",
        "namespace": NAMESPACE,
        "replicas": ReplicaRange(min=1, max=1),
        "rungs": RUNGS,
        "served_name": "llama-3.1-8b",
        "service_account": "chat",
        "settings": EngineSettings(engine_args={"max-num-batched-tokens": 4096}),
        "size": Size(parameters_billion=8.03),
        "weights": f"gs://{project}-weights/llama-3.1-8b",
    },
    pulumi.ResourceOptions.merge(behind, pulumi.ResourceOptions(depends_on=[identity])),
)
port = config.get_int("port") or 80
gateway = InferenceGateway(
    "gateway",
    {
        "address_name": "demo",
        "exposure": Exposure.EXTERNAL,
        "gateway_name": "demo",
        "models": [
            {
                "model_name": "llama-3.1-8b",
                "pool_name": "chat",
                "selector": server.labels,
                "target_port": server.port,
                "timeout_seconds": 600,
            }
        ],
        "namespace": NAMESPACE,
        "port": port,
        "project": project,
        "region": region,
    },
    behind,
)

pulumi.export("cluster", cluster.cluster_name)
pulumi.export("endpoint", gateway.address.apply(lambda address: f"http://{address}:{port}"))
pulumi.export("weights", bucket.url)
