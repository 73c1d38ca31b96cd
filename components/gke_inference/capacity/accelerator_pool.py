"""A node pool of one accelerator shape, bought in one way, made by hand.

Compute classes create pools by themselves; a pool by hand is for a multi-host slice, a shared
reservation, queued provisioning, or a pod that GKE cannot size a pool for.
"""

from typing import NotRequired, TypedDict

import pulumi
from pulumi_gcp import compute, container

from gke_inference.base.inputs import under
from gke_inference.catalogue.rungs import RungArgs

from .pool_settings import PoolSettings, autoscaling, node_config, pool_settings


class AcceleratorPoolArgs(TypedDict):
    """Inputs of `AcceleratorPool`."""

    cluster: pulumi.Input[str]
    """Name of the cluster: `InferenceCluster.cluster_name`."""
    location: str
    """Region or zone of the cluster."""
    node_service_account: pulumi.Input[str]
    """E-mail nodes run as: `InferenceCluster.node_service_account`."""
    pool_name: str
    """Name of the pool, what `node_pools` of a rung calls it."""
    project: pulumi.Input[str]
    """Project of the cluster."""
    rung: RungArgs
    """The accelerator, its shape and how it is bought."""
    boot_disk_key: NotRequired[pulumi.Input[str]]
    """Cloud KMS key of the boot disks. Default: Google's own keys."""
    boot_disk_gib: NotRequired[int]
    """Size of the boot disk, 20 to 65536. Default 100."""
    boot_disk_type: NotRequired[str]
    """Default: what the rung says, or what GKE takes for the machine type."""
    compute_class: NotRequired[str]
    """Class that pods ask for to land here; the pool gets its label and taint."""
    gpu_driver: NotRequired[str]
    """`latest`, `default` or `disabled`, for a GPU pool. Default `latest`."""
    image_cache: NotRequired[pulumi.Input[str]]
    """Disk image with container images on it, for GPUs: `NodeImageCache.disk_image`."""
    labels: NotRequired[dict[str, str]]
    """More labels for the machines and their bills."""
    max_nodes: NotRequired[int]
    """Nodes the autoscaler may reach: in all zones together, and per zone for a TPU or flex-start
    pool. Needed, except for a multi-host slice, which is all of its nodes or none."""
    max_surge: NotRequired[int]
    """Nodes that an upgrade adds before it takes others away, 0 to 20. Default 0: scarce chips have
    no spare."""
    max_unavailable: NotRequired[int]
    """Nodes that an upgrade takes away at a time, 0 to 20. Default 1; 0 needs `maxSurge`."""
    min_nodes: NotRequired[int]
    """Nodes to keep. Default 0; flex-start allows no other."""
    public_nodes: NotRequired[bool]
    """Give nodes public addresses. Default no."""
    queued: NotRequired[bool]
    """Flex-start only: create nodes for a ProvisioningRequest, all of them or none. Default no."""


class AcceleratorPool(pulumi.ComponentResource):
    """A TPU or GPU node pool with the rules of its consumption option built in.

    Shielded and private, on gVNIC, with image streaming; it upgrades without surge by default,
    since scarce chips have no spare.
    """

    chips_per_node: pulumi.Output[int]
    """Chips a pod asks for to have the node."""
    machine_type: pulumi.Output[str]
    """Machine type of every node."""
    pool_name: pulumi.Output[str]
    """Name of the pool."""

    def __init__(
        self, name: str, args: AcceleratorPoolArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:AcceleratorPool", name, {}, opts)
        settings = pool_settings(args)
        pool = self._build_pool(name, args, settings, self._build_placement(name, args, settings))
        self.chips_per_node = pulumi.Output.from_input(settings.rung.chips_per_node)
        self.machine_type = pulumi.Output.from_input(settings.rung.machine_type)
        self.pool_name = pool.name
        self.register_outputs(
            {
                "chipsPerNode": self.chips_per_node,
                "machineType": self.machine_type,
                "poolName": self.pool_name,
            }
        )

    def _build_placement(
        self, name: str, args: AcceleratorPoolArgs, settings: PoolSettings
    ) -> "container.NodePoolPlacementPolicyArgsDict | None":
        """Returns how the hosts of a slice are wired together; one host needs nothing."""
        rung = settings.rung
        if not rung.is_slice or rung.topology is None:
            return None
        if settings.slice_placement == "compact":
            return {"tpu_topology": rung.topology, "type": "COMPACT"}
        # TPU7x takes a workload policy instead (cluster-toolkit @1047080 examples/gke-tpu-7x).
        policy = compute.ResourcePolicy(
            f"{name}-slice",
            description=f"One {rung.accelerator} slice of {rung.topology}.",
            project=args["project"],
            region=settings.region,
            workload_policy={
                "accelerator_topology": rung.topology,
                "type": "HIGH_THROUGHPUT",
            },
            opts=under(self),
        )
        return {"policy_name": policy.name, "type": "COMPACT"}

    def _build_pool(
        self,
        name: str,
        args: AcceleratorPoolArgs,
        settings: PoolSettings,
        placement: "container.NodePoolPlacementPolicyArgsDict | None",
    ) -> container.NodePool:
        return container.NodePool(
            name,
            autoscaling=autoscaling(settings),
            cluster=args["cluster"],
            initial_node_count=settings.initial_nodes,
            location=settings.location,
            management={
                # A flex-start node is not repaired: its replacement would queue again.
                "auto_repair": settings.rung.provisioning != "flex-start",
                "auto_upgrade": True,
            },
            name=settings.pool_name,
            network_config={"enable_private_nodes": not settings.public_nodes},
            node_config=node_config(settings, args),
            node_locations=settings.node_locations,
            placement_policy=placement,
            project=args["project"],
            queued_provisioning={"enabled": True} if settings.queued else None,
            upgrade_settings={
                "max_surge": settings.max_surge,
                "max_unavailable": settings.max_unavailable,
                "strategy": "SURGE",
            },
            opts=under(
                self,
                # The autoscaler owns the count; GKE adds labels of its own.
                ignore_changes=["initialNodeCount", "nodeConfig.resourceLabels"],
            ),
        )
