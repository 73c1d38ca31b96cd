"""What the page of the CIS benchmark says that components set, they set."""

from typing import Any

import pytest

from policies.benchmark.recommendations import Component, recommendations
from policies.framework.reading import at, section
from tests.contract.infra.cloud import Deployed
from tests.contract.infra.resolved import stack as stack_named
from tests.contract.recorder import Registration
from twin.host.paths import REPOSITORY

STACKS = ("staging", "prod")
PROVEN = {
    number: row.component
    for number, row in recommendations().items()
    if row.component is not None and row.component.property
}


def registrations(deployed: Deployed) -> list[Registration]:
    return [seen for name in STACKS for seen in deployed(stack_named(name)).registrations]


def shows(component: Component, seen: Registration) -> bool:
    """Return whether a component's answer is about a resource."""
    if component.type:
        return seen.type == component.type
    labels = section(seen.inputs, "metadata", "labels").items()
    return component.labels.items() <= labels and "template" in section(seen.inputs, "spec")


@pytest.mark.parametrize("number", PROVEN)
def test_every_resource_has_the_value_that_answers_a_recommendation(
    deployed: Deployed, number: str
) -> None:
    component = PROVEN[number]
    found = [seen for seen in registrations(deployed) if shows(component, seen)]
    values: list[Any] = [at(seen.inputs, *component.property.split(".")) for seen in found]
    assert values == [component.value] * len(found)
    assert found


def test_no_role_of_a_stack_reads_secrets_or_raises_its_rights(deployed: Deployed) -> None:
    rules = [
        rule
        for seen in registrations(deployed)
        if seen.type.endswith((":Role", ":ClusterRole"))
        for rule in seen.inputs["rules"]
    ]
    assert rules
    for rule in rules:
        assert "secrets" not in rule.get("resources", ())
        assert not {"bind", "escalate", "impersonate"}.intersection(rule["verbs"])


def test_the_source_of_every_answer_is_a_file() -> None:
    components = [row.component for row in recommendations().values() if row.component]
    assert [each.file for each in components if not (REPOSITORY / each.file).is_file()] == []
