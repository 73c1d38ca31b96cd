"""Stateful resources are protected by the engine where the stack is protected."""

from infra.plan.stateful import STATEFUL
from infra.stack import Platform
from tests.contract.infra.cloud import Deployed
from tests.contract.infra.resolved import stack as stack_named
from tests.contract.recorder import Registration


def stateful(deployed: Deployed, platform: Platform) -> list[Registration]:
    """Return the stateful resources of a stack; there are some."""
    found = [seen for seen in deployed(platform).registrations if seen.type in STATEFUL]
    assert found
    return found


def test_every_stateful_resource_of_production_is_protected_and_nothing_else_is(deployed):
    seen = deployed(stack_named("prod")).registrations
    assert {each.name for each in seen if each.protected} == {
        each.name for each in seen if each.type in STATEFUL
    }
    kinds = {each.type.rpartition(":")[2] for each in seen if each.protected}
    assert kinds >= {"Bucket", "Cluster", "Disk", "NodePool", "Repository"}


def test_what_may_be_lost_is_not_protected_by_its_name_in_the_cloud_or_the_program(deployed):
    names = ("acme-staging-models-us-central1", "us-east1")
    changes = {"protection": True, "allow_replace": names}
    platform = stack_named("staging").model_copy(update=changes)
    open_ones = {each.name for each in stateful(deployed, platform) if not each.protected}
    assert open_ones == {"us-central1-models", "us-east1"}


def test_a_stack_that_comes_and_goes_protects_nothing(deployed):
    assert not [each for each in stateful(deployed, stack_named("staging")) if each.protected]


def test_the_counters_of_client_teams_are_not_deleted_from_a_protected_stack(deployed):
    seen = deployed(stack_named("prod")).all("gcp:memorystore/instance:Instance")
    counters = [each.inputs for each in seen if each.inputs["instanceId"].endswith("counters")]
    assert [each["deletionProtectionEnabled"] for each in counters] == [True] * 3
