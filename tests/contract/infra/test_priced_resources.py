"""What a stack registers and what `cost` counts are the same, region by region."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from infra.estimate.stack_cost import StackCost, stack_cost
from infra.plan import resolve
from infra.reading.load import STACKS, parse, platform_of, read
from tests.contract.infra.cloud import Deployed
from tests.contract.infra.registered import registered
from tests.contract.recorder import Registration
from tests.shipped_stacks import EXAMPLES, FILES

_RUN = "gcp:cloudrunv2/service:Service"
_RUN_ROUTER = "front router on Cloud Run"
_RUN_MODEL = re.compile(r"Cloud Run [^ ]+: ")
_BY_TYPE = {
    _RUN: ("Cloud Run for personalized images",),
    "gcp:compute/regionSecurityPolicy:RegionSecurityPolicy": ("Cloud Armor policy",),
    "gcp:compute/routerNat:RouterNat": ("NAT gateway", "NAT address"),
    "gcp:compute/securityPolicy:SecurityPolicy": ("Cloud Armor policy of the front",),
    "gcp:compute/serviceAttachment:ServiceAttachment": ("Private Service Connect, data",),
    "gcp:container/cluster:Cluster": ("management fee",),
    "gcp:filestore/instance:Instance": ("Filestore",),
    "gcp:lustre/instance:Instance": ("Managed Lustre",),
    "gcp:memorystore/instance:Instance": ("Memorystore for Valkey",),
    "gcp:storage/anywhereCache:AnywhereCache": ("Anywhere Cache",),
}
"""Parts of a cost for each resource of a type."""
_INTERNAL = (
    "internal load balancer, proxy instances",
    "internal load balancer, data both ways",
)
_BY_CLASS = {
    "gke-l7-cross-regional-internal-managed-mc": ("multi-cluster gateway",),
    "gke-l7-regional-external-managed": (
        "external load balancer, forwarding rule",
        "external load balancer, data both ways",
    ),
    "gke-l7-rilb": _INTERNAL,
}
"""Parts of a cost for each Gateway of a class."""


def _class_of(seen: Registration) -> str:
    """Return the class of a Gateway, or an empty string."""
    return seen.inputs["spec"]["gatewayClassName"] if seen.type.endswith(":Gateway") else ""


def expected(seen: list[Registration]) -> Counter[str]:
    """Return how often each part must be in the cost of a stack that registers these resources."""
    found: Counter[str] = Counter()
    is_fleet = any(_class_of(each).endswith("-mc") for each in seen)
    for each in seen:
        words = _BY_TYPE.get(each.type, ())
        if name := _class_of(each):
            words = _BY_CLASS[name]
        if each.type == _RUN and "CloudRunModel" in each.parent:
            words = (_RUN_MODEL.pattern,)
        if each.type == _RUN and "FrontRouter" in each.parent:
            words = (_RUN_ROUTER,)
        if each.type == "gcp:gkehub/membership:Membership" and is_fleet:
            words = _INTERNAL  # the gateway over all clusters has proxies in each region
        found.update(words)
    if any(each.type.endswith(":GlobalForwardingRule") for each in seen):
        found["global load balancer, forwarding rules"] = 1  # of the first five together
    return found


def counted(cost: StackCost) -> Counter[str]:
    """Return how often each of these parts is in a cost."""
    words = {word for of in (*_BY_TYPE.values(), *_BY_CLASS.values()) for word in of}
    words |= {"global load balancer, forwarding rules", _RUN_ROUTER}
    longest = sorted(words, key=len, reverse=True)
    found = (
        _RUN_MODEL.pattern
        if _RUN_MODEL.match(part.what)
        else next((w for w in longest if part.what.startswith(w)), "")
        for part in cost.parts
    )
    return Counter(word for word in found if word)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name + "/" + file.stem)
def test_the_cost_of_a_stack_has_each_resource_once(file: Path, deployed: Deployed) -> None:
    cost = stack_cost(resolve(read(file.name.split(".")[1], file.parent)))
    assert counted(cost) == expected(registered(file, deployed))


def only_first(platform: dict[str, Any]) -> None:
    """Leave all models in the first region."""
    for model in platform["models"].values():
        model["regions"] = [next(iter(platform["regions"]))]


@pytest.mark.parametrize(
    "file",
    [
        STACKS / "Pulumi.prod.yaml",
        *sorted(EXAMPLES.glob("three-regions/Pulumi.*.yaml")),
        *sorted(EXAMPLES.glob("internal-front/Pulumi.*.yaml")),
    ],
    ids=lambda file: file.stem,
)
def test_a_region_without_models_costs_no_gateway(file: Path, deployed: Deployed) -> None:
    document = platform_of(file)
    only_first(document)
    platform = parse(json.dumps(document))
    plan = resolve(platform)
    assert len(plan.front.regions) == 1 < len(plan.regions)
    assert counted(stack_cost(plan)) == expected(deployed(platform).registrations)
