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
from pulumi.runtime.config import set_all_config

from infra.deploy import program
from infra.deploy.program import deploy_images
from infra.reading.built import ACCEPT, OUTPUTS, UNBUILT
from infra.reading.load import KEY, PROJECT, parse, read
from infra.stack import Platform
from scripts.images.bootstrap import TARGETS, expression
from tests.contract.infra.broken_stacks import edited
from tests.contract.infra.cloud import CloudRecorder, Deployed
from tests.contract.recorder import STACK, Registration, install
from twin.host.paths import TwinPaths
from twin.pulumi import environment as twin_environment

PROGRAM = str(Path(__file__).parents[3] / "infra" / "__main__.py")
FOREIGN = "projects/acme-shared/locations/us-central1/repositories/engines"
DIGEST = "sha256:" + "1" * 64
SENTENCE = (
    "Pulumi.test.yaml: images.digests must have callout, as only this repository's builds create"
    " these images, got none: `gke-inference images prepare --stack test --on cloud` is the first"
    " step (docs/images.md)"
)


@pytest.fixture(autouse=True)
def _no_configuration_after(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(UNBUILT, raising=False)
    monkeypatch.delenv(OUTPUTS, raising=False)
    yield
    set_all_config({})


@pytest.fixture
def deploys(monkeypatch: pytest.MonkeyPatch) -> list[Platform]:
    """The stacks that the program deploys as a whole; here it registers nothing for them."""
    found: list[Platform] = []
    monkeypatch.setattr(program, "deploy", found.append)
    return found


def run(cloud: CloudRecorder, *, updates: bool, **digests: str) -> None:
    """Run the engine's program for prod with a body router, in a preview or in an update."""
    value = {"body-router": DIGEST, **digests}
    run_edited(cloud, [{"at": ["images", "digests"], "value": value}], updates=updates)


def run_edited(cloud: CloudRecorder, edits: list[dict[str, Any]], *, updates: bool) -> None:
    """Run the engine's program for a changed prod."""
    set_all_config({f"{PROJECT}:{KEY}": json.dumps(edited("prod", edits))})
    cloud.run(lambda: runpy.run_path(PROGRAM, run_name="__main__") and None, preview=not updates)


def test_an_update_is_refused_before_anything_is_made(cloud: CloudRecorder) -> None:
    with pytest.raises(pulumi.RunError) as refused:
        run(cloud, updates=True)
    assert str(refused.value) == SENTENCE
    assert cloud.registrations == []


def test_a_preview_shows_everything_and_warns(
    cloud: CloudRecorder, monkeypatch: pytest.MonkeyPatch, deploys: list[Platform]
) -> None:
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", said.append)
    run(cloud, updates=False)
    assert f"`pulumi up` in Google Cloud will be refused: {SENTENCE.partition(': ')[2]}" in said
    assert [each.environment for each in deploys] == ["prod"]


def test_the_twin_permits_the_update_and_its_preview_still_warns(
    cloud: CloudRecorder, monkeypatch: pytest.MonkeyPatch, deploys: list[Platform]
) -> None:
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", said.append)
    monkeypatch.setenv(UNBUILT, ACCEPT)
    run(cloud, updates=False)
    assert [each for each in said if "images.digests must have callout" in each]
    said.clear()
    run(cloud, updates=True)
    assert not [each for each in said if "images.digests" in each]
    assert len(deploys) == 2


def test_an_update_passes_once_the_image_has_a_digest(
    cloud: CloudRecorder, deploys: list[Platform]
) -> None:
    run(cloud, updates=True, callout=DIGEST)
    assert len(deploys) == 1


def test_the_twin_runs_these_programs_without_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(twin_environment, "tool", lambda name: tmp_path / name)
    made = twin_environment.pulumi_environment(TwinPaths(tmp_path), {})
    assert made[UNBUILT] == ACCEPT


def first_step(monkeypatch: pytest.MonkeyPatch, folder: Path, outputs: str) -> None:
    """Set the variables of `images bootstrap`."""
    file = folder / "outputs.json"
    file.write_text(outputs)
    monkeypatch.setenv(UNBUILT, f"first:{pulumi.get_stack()}")
    monkeypatch.setenv(OUTPUTS, str(file))


@pytest.mark.parametrize("value", ["first", "first:other", "first:test", "yes"])
@pytest.mark.parametrize("updates", [True, False])
def test_a_variable_that_only_a_shell_has_left_over_is_refused(
    cloud: CloudRecorder, monkeypatch: pytest.MonkeyPatch, value: str, updates: bool
) -> None:
    monkeypatch.setenv(UNBUILT, value)
    with pytest.raises(pulumi.RunError) as refused:
        run(cloud, updates=updates, callout=DIGEST)
    assert str(refused.value) == (
        f"Pulumi.test.yaml: {UNBUILT} must be unset, accept, or first:test together with {OUTPUTS},"
        f" got {value!r}: only `gke-inference images bootstrap --stack test` sets these"
    )
    assert cloud.registrations == []


@pytest.mark.parametrize(
    ("outputs", "says"),
    [
        ("", "must be a file with the output of `pulumi stack output --json`"),
        ("[]", "must be a file with the output of `pulumi stack output --json`"),
        ('{"key": {"of": "[secret]"}}', "must have no secret, which would be lost"),
    ],
)
def test_outputs_that_cannot_be_kept_are_refused(
    cloud: CloudRecorder,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    outputs: str,
    says: str,
) -> None:
    first_step(monkeypatch, tmp_path, outputs)
    with pytest.raises(pulumi.RunError) as refused:
        run(cloud, updates=True)
    path = str(tmp_path / "outputs.json")
    assert str(refused.value) == f"Pulumi.test.yaml: {OUTPUTS} {says}, got {path!r}"
    assert cloud.registrations == []


def test_the_first_step_of_a_deployed_stack_keeps_its_outputs(
    cloud: CloudRecorder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    outputs = {"endpoint": "https://models.example.com", "clusters": {"us-central1": {"name": "a"}}}
    first_step(monkeypatch, tmp_path, json.dumps(outputs))
    kept: dict[str, Any] = {}
    monkeypatch.setattr(pulumi, "export", kept.__setitem__)
    run(cloud, updates=True)
    assert kept == outputs
    assert cloud.all("gcp:cloudbuild/trigger:Trigger")


@pytest.mark.parametrize("attestation", ["audit", "enforce"])
def test_the_first_step_needs_no_digest_and_no_reason_for_tags(
    cloud: CloudRecorder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, attestation: str
) -> None:
    edits = [
        {"at": ["unpinned_images"], "value": None},
        {"at": ["images", "attestation"], "value": attestation},
    ]
    with pytest.raises(pulumi.RunError, match="gke-inference images prepare"):
        run_edited(cloud, edits, updates=True)
    first_step(monkeypatch, tmp_path, "{}")
    run_edited(cloud, edits, updates=True)
    assert cloud.all("gcp:cloudbuild/trigger:Trigger")


def test_the_first_step_makes_apis_repositories_and_triggers_and_nothing_else(
    cloud: CloudRecorder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first_step(monkeypatch, tmp_path, "{}")
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
    cloud.run(lambda: deploy_images(read(name), {}))
    left = [urn for urn in map(_urn, cloud.registrations) if not _is_target(urn)]
    assert (left, len(cloud.registrations) > 20) == ([], True)


@pytest.mark.parametrize(("base", "existing"), [("prod", None), ("staging", FOREIGN)])
def test_a_target_that_the_first_step_leaves_out_would_be_deleted_and_there_is_none(
    deployed: Deployed, engine_loop: asyncio.AbstractEventLoop, base: str, existing: str | None
) -> None:
    at = ["regions", "us-central1", "existing"]
    edits = [] if existing is None else [{"at": at, "value": {"repository": existing}}]
    platform = parse(json.dumps(edited(base, edits)))
    whole = deployed(platform)
    first = install(CloudRecorder(), engine_loop)
    first.run(lambda: deploy_images(platform, {}))
    assert {urn for urn in map(_urn, whole.registrations) if _is_target(urn)} == {
        _urn(seen) for seen in first.registrations
    }


def _is_target(urn: str) -> bool:
    return any(re.fullmatch(expression(each), urn) for each in TARGETS)


def _urn(seen: Registration) -> str:
    parents = seen.parent.split("::")[-2].split("$") if seen.parent else []
    types = [*(each for each in parents if each != STACK), seen.type]
    return f"urn:pulumi:test::gke-inference::{'$'.join(types)}::{seen.name}"
