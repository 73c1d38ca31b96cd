"""Wires guardrails: the project setup of Model Armor, and the templates and guards of a region."""

import pulumi

from gke_inference.guardrails.model_armor import ModelArmor
from gke_inference.guardrails.model_armor_gate import ModelArmorGate
from gke_inference.guardrails.model_armor_project import ModelArmorProject
from gke_inference.guardrails.nemo_guardrails import NemoGuardrails
from infra.arguments import guardrails as assemble
from infra.plan import RegionPlan
from infra.plan.clients import GATE, gated
from infra.stack import Platform


def prepare_armor(platform: Platform, after: list[pulumi.Resource]) -> None:
    """Allow Google's agent to call Model Armor, and set the project's floor, if configured."""
    args = assemble.project_args(platform)
    if args is not None:
        ModelArmorProject("model-armor", args, pulumi.ResourceOptions(depends_on=after))


def guard_region(
    platform: Platform,
    region: RegionPlan,
    inside: pulumi.ResourceOptions,
    gateway: pulumi.Resource,
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """Build the guardrails of a region, and return the resources that the gate depends on.

    Args:
        platform: The stack.
        region: The region.
        inside: Options with the cluster's Kubernetes provider and dependencies.
        gateway: The region's gateway.
        opts: Options with their dependencies.
    """
    behind = pulumi.ResourceOptions.merge(inside, opts)
    made: list[pulumi.Resource] = [
        ModelArmor(f"{region.name}-{name}", args, opts)
        for name, args in assemble.template_args(platform, region.name).items()
    ]
    made += [
        NemoGuardrails(f"{region.name}-guardrail-{name}", args, behind)
        for name, args in assemble.nemo_args(platform).items()
    ]
    args = assemble.armor_gate_args(platform, region)
    if args is not None and gated(platform) is None:
        last = pulumi.ResourceOptions(depends_on=[gateway, *made])
        both = pulumi.ResourceOptions.merge(inside, last)
        ModelArmorGate(f"{region.name}-{GATE}", args, both)
    return made
