"""A placement policy, for nodes that exchange data for every token."""

from typing import TypedDict

import pulumi
from pulumi_gcp import compute

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under


class CompactPlacementArgs(TypedDict):
    """Inputs of `CompactPlacement`."""

    policy_name: str
    """Name of the policy."""
    project: pulumi.Input[str]
    """Project of the cluster."""
    region: str
    """Region of the cluster."""


class CompactPlacement(pulumi.ComponentResource):
    """A compact placement policy, for the nodes of one capacity.

    Compute Engine places all nodes with the policy as close to each other as it can, and creates
    nodes elsewhere in the zone if there is no room. A policy cannot be deleted while nodes use it:
    create it before the cluster.
    """

    policy_name: pulumi.Output[str]
    """Name of the policy, for `placement_policy` of pools and compute classes."""

    def __init__(
        self, name: str, args: CompactPlacementArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:CompactPlacement", name, {}, opts)
        args = checked(CompactPlacementArgs, args)
        policy = compute.ResourcePolicy(
            name,
            description="Nodes close to each other.",
            group_placement_policy={"collocation": "COLLOCATED"},
            name=name_of(args, "policy_name", "compute"),
            project=args["project"],
            region=args["region"],
            opts=under(self),
        )
        self.policy_name = policy.name
        self.register_outputs({"policyName": self.policy_name})
