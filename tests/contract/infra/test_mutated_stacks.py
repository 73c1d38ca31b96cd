"""A stack with random edits is refused, with a message for each problem, or it is deployed.

What a stack is refused for is said before anything is created; what is accepted must also be
priced, counted against quotas, pass the components, and keep what holds for every stack.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

import pytest

from gke_inference.catalogue.input_error import InputError
from infra.estimate.cold_starts import starts
from infra.estimate.quota_needs import needs
from infra.estimate.stack_cost import stack_cost
from infra.plan import resolve
from infra.reading.load import platform_of
from infra.stack import Platform
from infra.stack.problems import StackError
from policies.checker.checker import check_objects
from policies.checker.rules import invariants
from policies.framework.finding import Verdict
from tests.contract.infra.cloud import Deployed
from tests.contract.infra.mutations import Mutation, mutation
from tests.contract.infra.registered import clusters_of, parsed, registered_by, state
from tests.shipped_stacks import EXAMPLES
from twin.providers.gcp.checks.validate import validate_inputs

INVARIANTS = [listed.rule for listed in invariants().values()]
READ = 400
"""Mutations that are read and priced; about one in five is accepted."""
DEPLOYED = 12
BLOCK = 100
_LONGEST = 500


def accepted(mutated: Mutation) -> Platform | None:
    """Return the stack of a mutation, or None if it is refused as it should be."""
    try:
        return parsed(mutated.document, mutated.file.parent)
    except StackError as refused:
        found = refused.problems
        assert [each.sentence() for each in found if not is_readable(each)] == []
        assert len(set(found)) == len(found)
        return None


def is_readable(problem: InputError) -> bool:
    """Return whether a message is one line with a field, in the words of a user."""
    text = problem.sentence()
    is_line = bool(problem.path) and "\n" not in text and len(text) <= _LONGEST
    return is_line and not any(
        word in text for word in ("pydantic", "is not valid:", " object at ")
    )


def mutations(seeds: range) -> Iterator[tuple[str, Mutation, Platform]]:
    """Yield the mutations that are accepted, with a name for a message."""
    for seed in seeds:
        mutated = mutation(seed)
        name = f"seed {seed}, {mutated.file.parent.name}/{mutated.file.stem}: {mutated.edits}"
        try:
            platform = accepted(mutated)
        except Exception as error:  # whatever reading raises is a fault of this mutation
            error.add_note(name)
            raise
        if platform is not None:
            yield name, mutated, platform


def fault(mutated: Mutation, platform: Platform, deployed: Deployed) -> str | None:
    """Return why an accepted stack is not deployed, or None if it is.

    It is not if the program fails, Google refuses a resource, or an invariant is broken.
    """
    try:
        made = registered_by(platform, mutated.document, mutated.file.parent, deployed)
    except Exception as error:  # noqa: BLE001 - whatever the program raises is a fault
        return repr(error)
    of_google = [each for each in made if each.type.startswith("gcp:")]
    refused = [
        f"{each.name}: {failure.path} {failure.reason}"
        for each in of_google
        for failure in validate_inputs(each.type, each.inputs)
        if failure.path != "name" or "name" in each.inputs  # the provider chooses others
    ]
    if refused:
        return "; ".join(refused)
    states = tuple(state("mutated", seen) for seen in made)
    broken = check_objects(clusters_of(made, states), INVARIANTS).of(Verdict.BROKEN)
    return str(broken) if broken else None


def faults(some: Iterable[tuple[str, Mutation, Platform]], deployed: Deployed) -> Iterator[str]:
    """Yield the mutations that are not deployed, each with the reason."""
    for name, mutated, platform in some:
        why = fault(mutated, platform, deployed)
        if why is not None:
            yield f"{name}: {why}"


def test_a_mutated_stack_is_refused_with_messages_or_can_be_priced() -> None:
    count = 0
    for name, _, platform in mutations(range(READ)):
        count += 1
        try:
            plan = resolve(platform)
            assert stack_cost(plan).parts
            assert needs(plan) or not plan.models
            starts(plan)
        except Exception as error:
            error.add_note(name)
            raise
    assert count >= READ // 10


def test_a_mutated_stack_that_is_accepted_is_deployed(deployed: Deployed) -> None:
    some = islice(mutations(range(READ)), DEPLOYED)
    assert list(faults(some, deployed)) == []


def test_the_choice_of_spot_alone_is_the_stacks_and_is_written_on_its_class(
    deployed: Deployed,
) -> None:
    file = EXAMPLES / "predictive" / "Pulumi.predictive.yaml"
    document = platform_of(file)
    document["capacity"]["gpus"]["rungs"][0]["provisioning"] = "spot"
    mutated = Mutation(file, document, ("Spot alone",))
    platform = accepted(mutated)
    assert platform is not None
    assert fault(mutated, platform, deployed) is None


@pytest.mark.soak  # the tests above read four hundred of them, and deploy twelve
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("start", range(0, 3000, BLOCK))
def test_every_mutated_stack_that_is_accepted_is_deployed(deployed: Deployed, start: int) -> None:
    some = mutations(range(start, start + BLOCK))
    assert list(faults(some, deployed)) == []
