"""The description that a sweep makes for other settings is that of a stack with these settings."""

import pytest

from infra.plan import resolve
from infra.reading.load import STACKS, platform_of, read
from scripts.rehearse.bounds import Bounds
from scripts.rehearse.describe import describe
from scripts.rehearse.sweep_options import Option, edited, groups_of
from scripts.rehearse.varied import same, varied
from tests.contract.infra.registered import state
from twin.providers.kubernetes.manifests.objects import to_object

EVERY = {
    "min": [2], "max": [7], "standby": [2], "scale_in_delay_seconds": [60], "queue_depth": [9],
    "kv_cache_percent": [60], "running_requests": [16],
    "regions": [["us-central1", "europe-west4"]],
}  # fmt: skip
BOUNDS = {
    "prod": {
        "models": {"gemma-3-27b": EVERY, "llama-3.3-70b": EVERY},
        "capacity": {name: {"order": ["spot-first"]} for name in ("large", "heavy")},
    },
    "local": {
        "models": {"llama-3.1-8b": {**EVERY, "max": [3], "regions": []}},
        "capacity": {"interactive": {"order": ["spot-first"]}},
    },
}


def described(plan, deployed):
    made = deployed(plan.platform).registrations
    objects = {}
    for seen in made:
        if seen.type.startswith("kubernetes:") and "kind" in seen.inputs:
            region = next(name for name in plan.regions if name in seen.provider)
            cluster = plan.regions[region].cluster_name
            objects.setdefault(cluster, []).append(to_object(seen.inputs))
    return describe(plan, objects, [state("stack", seen) for seen in made]).platform


@pytest.mark.parametrize("name", ["local", "prod"])
def test_other_settings_change_the_description_as_the_rendered_stack_does(name, deployed):
    document = platform_of(STACKS / f"Pulumi.{name}.yaml")
    plan = resolve(read(name))
    bounds = Bounds.model_validate(BOUNDS[name], strict=False)
    before = described(plan, deployed)
    groups = groups_of(plan, document, bounds, list(plan.platform.models))
    every = Option(tuple(one for group in groups for values in group.settings for one in values))
    fields = {each.path[-1] for each in every.settings}
    assert {"min", "max", "scale_in_delay_seconds", "queue_depth", "rungs"} <= fields
    after = described(edited(document, every), deployed)
    assert not same(before, after)
    assert same(varied(before, plan, every), after)
