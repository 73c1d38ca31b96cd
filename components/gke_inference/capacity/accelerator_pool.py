"""A manually created node pool of one accelerator shape with one provisioning model.

Compute classes create pools automatically. Create a pool yourself for a multi-host slice, a shared
reservation, queued provisioning, or a pod for which GKE cannot size a pool.
"""

import pulumi
from pulumi_gcp import compute, container

from gke_inference.base.inputs import under

from .pool_blocks import autoscaling, network_config, node_config, upgrades
from .pool_settings import AcceleratorPoolArgs, PoolSettings, pool_settings


class AcceleratorPool(pulumi.ComponentResource):
    """A TPU or GPU node pool that follows the rules of its consumption option.

    Its nodes are shielded and private, with gVNIC and image streaming. By default, upgrades add no
    nodes, since scarce chips have no spare.
    """

    chips_per_node: pulumi.Output[int]
    """Chips that a pod requests to use the whole node."""
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
        """Return the placement policy of a slice's hosts or of compact nodes, or nothing."""
        rung = settings.rung
        if rung.placement == "compact":
            if "placement_policy" not in args:
                return {"type": "COMPACT"}
            return {"policy_name": args["placement_policy"], "type": "COMPACT"}
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
                # Flex-start nodes are not repaired, since a replacement would queue again.
                "auto_repair": settings.rung.provisioning != "flex-start",
                "auto_upgrade": True,
            },
            name=settings.pool_name,
            network_config=network_config(settings),
            node_config=node_config(settings, args),
            node_locations=settings.node_locations,
            placement_policy=placement,
            project=args["project"],
            queued_provisioning=container.NodePoolQueuedProvisioningArgsDict(enabled=True)
            if settings.queued
            else None,
            upgrade_settings=upgrades(settings),
            opts=under(
                self,
                # The autoscaler manages the count, and GKE adds labels.
                ignore_changes=["initialNodeCount", "nodeConfig.resourceLabels"],
            ),
        )
