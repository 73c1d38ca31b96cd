"""A stack without one of its settings is accepted, or refused with messages; it never fails later.

What validation accepts must pass the components as well: their errors name their own inputs, not
the property of the stack file.
"""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.reading.load import parse, platform_of
from infra.stack import Layer
from infra.stack.problems import StackError
from tests.contract.infra.cloud import Deployed
from tests.shipped_stacks import EXAMPLES, FILES

Place = tuple[str | int, ...]
SHORT = EXAMPLES / "device-claims" / "Pulumi.device-claims.yaml"


def places(value: Any, way: Place = ()) -> Iterator[Place]:
    """Yield the place of each key and each item, at any depth."""
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = [*value]
    elif isinstance(value, list):
        keys = [*range(len(value))]
    for key in keys:
        yield (*way, key)
        yield from places(value[key], (*way, key))


def without(document: dict[str, Any], place: Place) -> str:
    """Return a platform without what is at a place."""
    changed: Any = copy.deepcopy(document)
    *way, last = place
    at = changed
    for key in way:
        at = at[key]
    del at[last]
    return json.dumps(changed)


def failures(file: Path, deployed: Deployed, below: tuple[str, ...]) -> list[str]:
    """Return the places below some keys without which a stack is accepted, but not deployed.

    Also those whose refusal names no property.
    """
    document = platform_of(file)
    if document.get("layer") == Layer.SERVING.value:
        return []  # it is read with its platform
    found: list[str] = []
    for place in places(document):
        if below and place[0] not in below:
            continue
        try:
            platform = parse(without(document, place))
        except StackError as refused:
            found += [f"{place}: {each}" for each in refused.problems if not each.path]
            continue
        try:
            deployed(platform)
        except Exception as error:  # noqa: BLE001 - whatever the program raises is a failure
            found.append(f"{'.'.join(map(str, place))}: {error!r}")
    return found


def test_a_stack_that_is_accepted_without_a_setting_is_deployed(deployed: Deployed) -> None:
    assert failures(SHORT, deployed, ("capacity", "models")) == []


@pytest.mark.soak  # the test above removes the settings of one stack's models and capacity
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_every_stack_that_is_accepted_without_a_setting_is_deployed(
    deployed: Deployed, file: Path
) -> None:
    assert failures(file, deployed, ()) == []
