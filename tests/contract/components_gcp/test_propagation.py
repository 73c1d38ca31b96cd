"""What uses a new service agent, or a role of it, is created again until access takes effect."""

import asyncio
from contextlib import closing
from typing import Any

import pulumi
import pytest

from gke_inference import Fleet, ModelArmorProject, PullThrough, StreamTopics
from gke_inference.base import propagation

NO_AGENT = (
    'Error setting IAM policy for project "acme": googleapi: Error 400: Service account'
    " service-1@gcp-sa-pubsub.x does not exist., badRequest"
)
NO_ACCESS = (
    "googleapi: Error 403: Permission 'secretmanager.versions.access' denied for resource 'x'"
)
HUB = {"username": "acme", "secret": "projects/acme/secrets/hub/versions/3"}
CLUSTER = {"cluster_id": "projects/p/locations/l/clusters/c", "location": "l", "membership": "m"}
OF_PROJECT = {"project": "acme", "project_number": "42"}
USERS: list[tuple[Any, dict[str, Any], list[str]]] = [
    (
        PullThrough,
        {
            "credentials": {"docker.io": HUB},
            "locations": ["us-east5"],
            "registries": ["docker.io", "ghcr.io"],
            "repository_prefix": "up",
        },
        ["it-secret-hub", "it-us-east5-docker-io"],
    ),
    (
        ModelArmorProject,
        {},
        ["it-calloutUser", "it-serviceUsageConsumer", "it-user"],
    ),
    (StreamTopics, {"stream_name": "s", "worker": "principal://w"}, ["it-dead-letters-agent"]),
    (Fleet, {"clusters": {"a": CLUSTER}, "config_cluster": "a"}, ["it-controller"]),
]


@pytest.mark.parametrize(
    ("component", "args", "names"), USERS, ids=[kind.__name__ for kind, _, _ in USERS]
)
def test_what_uses_a_new_service_agent_is_created_again(
    recorder: Any, component: Any, args: dict[str, Any], names: list[str]
) -> None:
    recorder.run(lambda: component("it", {**OF_PROJECT, **args}).urn)
    hooks = {
        name: list(request.hooks.on_error)
        for (_, name), request in recorder.requests.items()
        if request.hooks.on_error
    }
    assert sorted(hooks) == names
    assert {hook for each in hooks.values() for hook in each} == {f"{component.__name__}-it-access"}


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Give the times that are waited, in place of waiting."""
    found: list[float] = []

    async def wait(seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr(propagation.asyncio, "sleep", wait)
    monkeypatch.setattr(propagation.pulumi.log, "info", lambda _: None)
    return found


def is_retried(errors: list[str], operation: str = "create") -> bool:
    args = pulumi.ErrorHookArgs(
        urn="", id="", name="it", type="t", failed_operation=operation, errors=errors
    )
    with closing(asyncio.new_event_loop()) as loop:
        return loop.run_until_complete(propagation._retry(args))


@pytest.mark.parametrize("error", [NO_AGENT, NO_ACCESS])
def test_access_that_is_not_in_effect_is_waited_for(waits: list[float], error: str) -> None:
    assert [is_retried([error] * failures) for failures in range(1, 8)] == [True] * 7
    assert waits == [1, 2, 4, 8, 16, 30, 30]


def test_it_is_given_up_after_eight_minutes(waits: list[float]) -> None:
    tries = 0
    while is_retried([NO_AGENT] * (tries + 1)):
        tries += 1
    assert sum(waits) == 31 + 15 * 30


@pytest.mark.parametrize(
    ("error", "operation"),
    [
        ("googleapi: Error 400: Invalid value: repository_id", "create"),
        ("googleapi: Error 409: the repository already exists", "create"),
        ("googleapi: Error 503: permission service is unavailable", "create"),
        (NO_ACCESS, "delete"),
        ("googleapi: Error 403: Policy update access denied., forbidden", "create"),
        ("googleapi: Error 403: The caller does not have permission, forbidden", "create"),
        (
            "googleapi: Error 403: Permission 'artifactregistry.repositories.create' denied on"
            " resource '//artifactregistry.googleapis.com/projects/acme' (or it may not exist).",
            "create",
        ),
    ],
)
def test_other_errors_end_the_update_at_once(
    waits: list[float], error: str, operation: str
) -> None:
    assert not is_retried([error], operation)
    assert waits == []
