"""Deploys a team's models on the platform of another stack, without loading cluster SDKs."""

from typing import Any

import pulumi

from infra.described import described, placements
from infra.observe import observe
from infra.options.protection import protect_stateful
from infra.plan import Plan, resolve
from infra.plan.endpoint import catalogue_path, endpoint
from infra.platform_reference import Shared
from infra.stack import Platform
from infra.team_region import build_team_region


def deploy_team(platform: Platform, shared: Shared, *, with_delivered: bool = False) -> None:
    """Register the models of a serving stack, their monitoring, and the outputs.

    Args:
        platform: The stack, with the settings of its platform.
        shared: Record of the platform.
        with_delivered: Whether to also register objects delivered from git, for previews.
    """
    plan = resolve(platform)
    protect_stateful(platform)
    for name, region in plan.regions.items():
        build_team_region(platform, region, shared.regions[name], with_delivered=with_delivered)
    observe(plan, [])
    for name, value in serving_exports(plan, shared).items():
        pulumi.export(name, value)


def serving_exports(plan: Plan, shared: Shared) -> dict[str, Any]:
    """Return the outputs of a serving stack by name."""
    platform = plan.platform
    addresses = {
        name: shared.regions[name].address for name, region in plan.regions.items() if region.served
    }
    endpoints = {
        name: endpoint(platform.gateway, address) for name, address in addresses.items() if address
    }
    return {
        "addresses": addresses,
        "catalogue": catalogue_path(platform),
        "endpoint": endpoints[min(endpoints)] if endpoints else "",
        "endpoints": endpoints,
        "models": {
            name: described(platform, name, model) for name, model in platform.models.items()
        },
        "placements": {name: placements(plan.models[name]) for name in platform.models},
    }
