"""The first step of a stack: the images that only this repository's builds create."""

import asyncio
import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.runtime import settings
from pulumi.runtime.config import set_all_config

from infra.program import deploy
from infra.reading.built import ACCEPT, FIRST, UNBUILT
from infra.reading.load import KEY, PROJECT, read
from scripts.images.bootstrap import TARGETS
from tests.contract.infra.broken_stacks import edited
from tests.contract.infra.cloud import CloudRecorder
from tests.contract.recorder import STACK, Registration, install
from twin.pulumi import environment

PROGRAM = str(Path(__file__).parents[3] / "infra" / "__main__.py")
DIGEST = "sha256:" + "1" * 64
SENTENCE = (
    "Pulumi.test.yaml: images.digests must have callout, as only this repository's builds create"
    " these images, got none: `gke-inference images bootstrap --stack test` is the first step"
    " (docs/images.md)"
)


@pytest.fixture(autouse=True)
def _no_configuration_after(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(UNBUILT, raising=False)
    yield
    set_all_config({})


def run(cloud: CloudRecorder, *, updates: bool, **digests: str) -> None:
    """Run the engine's program for prod, in a preview or in an update."""
    edits: list[dict[str, Any]] = [{"at": ["images", "digests"], "value": digests}]
    set_all_config({f"{PROJECT}:{KEY}": json.dumps(edited("prod", edits))})
    setattr(settings.SETTINGS, "dry_run", not updates)  # noqa: B010 - typed as a context's
    cloud.run(lambda: runpy.run_path(PROGRAM, run_name="__main__") and None)


def test_an_update_is_refused_before_anything_is_made(cloud: CloudRecorder) -> None:
    with pytest.raises(pulumi.RunError) as refused:
        run(cloud, updates=True)
    assert str(refused.value) == SENTENCE
    assert cloud.registrations == []


def test_a_preview_shows_everything_and_warns(
    cloud: CloudRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", said.append)
    run(cloud, updates=False)
    assert f"`up` will be refused: {SENTENCE.partition(': ')[2]}" in said
    assert cloud.all("kubernetes:apps/v1:Deployment")


def test_an_update_passes_once_the_image_has_a_digest(cloud: CloudRecorder) -> None:
    run(cloud, updates=True, callout=DIGEST)
    assert cloud.all("kubernetes:apps/v1:Deployment")


def test_the_twin_runs_these_programs_without_images() -> None:
    text = Path(environment.__file__).read_text()
    assert f'"{UNBUILT}": "{ACCEPT}"' in text


def test_the_first_step_makes_apis_repositories_and_triggers_and_nothing_else(
    cloud: CloudRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(UNBUILT, FIRST)
    run(cloud, updates=True)
    made = {seen.type.rpartition(":")[2] for seen in cloud.registrations}
    assert {"Repository", "Trigger", "Service", "EngineRepository", "ImageBuild"} <= made
    assert not [each for each in cloud.registrations if each.type.startswith("kubernetes:")]
    assert not {"Cluster", "Network"} & made


@pytest.mark.parametrize("name", ["prod", "staging"])
def test_the_targets_are_the_urns_of_the_first_step(
    engine_loop: asyncio.AbstractEventLoop, name: str
) -> None:
    cloud = install(CloudRecorder(), engine_loop)
    cloud.run(lambda: deploy(read(name), only_images=True))
    patterns = [_expression(each) for each in TARGETS]
    left = [
        _urn(seen)
        for seen in cloud.registrations
        if not any(re.fullmatch(each, _urn(seen)) for each in patterns)
    ]
    assert (left, len(cloud.registrations) > 20) == ([], True)


def _expression(target: str) -> str:
    """Return the regular expression of a target of the engine: `**` is anything, `*` no colon."""
    escaped = re.escape(target)
    return escaped.replace(r"\*\*", ".*").replace(r"\*", "[^:]*")


def _urn(seen: Registration) -> str:
    parents = seen.parent.split("::")[-2].split("$") if seen.parent else []
    types = [*(each for each in parents if each != STACK), seen.type]
    return f"urn:pulumi:test::gke-inference::{'$'.join(types)}::{seen.name}"
