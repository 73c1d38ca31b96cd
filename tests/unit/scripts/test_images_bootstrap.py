"""`gke-inference images bootstrap`, with a fake `pulumi`."""

import json
import re
import shlex
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.plan import resolve
from infra.reading.load import STACKS, parse, platform_of, read
from infra.stack.problems import StackError
from scripts.images import bootstrap as images_bootstrap
from scripts.images import command
from scripts.images.actions import ImagesError
from scripts.shared.pulumi_cli import PulumiCli
from scripts.terminal import options
from twin.host.paths import REPOSITORY


def stack():
    """Return prod with a repository and no triggers."""
    document = platform_of(STACKS / "Pulumi.prod.yaml")
    document["images"] = {"repository": "engines"}
    return parse(json.dumps(document))


@pytest.fixture
def bare_base(monkeypatch):
    """Take the digest of the base of our Go programs away."""
    known = images_bootstrap.builds()
    base = replace(known["callout"].base, digest="")
    made = known | {name: replace(known[name], base=base) for name in ("body_router", "callout")}
    monkeypatch.setattr(images_bootstrap, "builds", lambda: made)


class Cli(PulumiCli):
    """Stands in for `pulumi`."""

    def __init__(self, outputs=None, code=0, known=()):
        super().__init__({})
        self.known = known
        self.ran, self.kept, self.code = [], outputs or {}, code

    def outputs(self, name):
        return self.kept

    def deployment(self, name):
        return {"resources": [{"urn": urn} for urn in self.known]}

    def run(self, *arguments, capture=False, environment=None, project=REPOSITORY):
        self.ran.append((arguments, environment))
        assert environment is not None
        self.given = json.loads(Path(environment["GKE_INFERENCE_STACK_OUTPUTS"]).read_text())
        return subprocess.CompletedProcess(arguments, self.code)


def test_the_first_step_needs_a_base_with_a_digest(bare_base):
    with pytest.raises(ImagesError, match=r"bases\.go: must have a digest .*, got none: run"):
        images_bootstrap.check(resolve(stack()).images)


def test_the_first_step_needs_a_repository():
    with pytest.raises(
        ImagesError, match=r"images: is required in the stack, such as .*, got none$"
    ):
        images_bootstrap.check(resolve(read("local")).images)


@pytest.mark.parametrize("outputs", [{}, {"endpoint": "x"}])
def test_the_first_step_is_a_targeted_update_that_keeps_the_outputs(outputs):
    cli = Cli(outputs)
    assert images_bootstrap.check(resolve(stack()).images) == ["body_router", "callout"]
    images_bootstrap.create(cli, resolve(stack()), "prod", yes=True)
    ((arguments, environment),) = cli.ran
    assert arguments[:4] == ("up", "-s", "prod", "--target")
    assert environment["GKE_INFERENCE_UNBUILT_IMAGES"] == "first:prod"
    assert cli.given == outputs
    assert arguments.count("--target") == len(images_bootstrap.TARGETS)


def test_the_first_step_of_a_deployed_stack_targets_only_what_is_missing():
    start = "urn:pulumi:prod::gke-inference::"
    kind = "gke-inference:index:EngineRepository"
    there = [
        f"{start}gcp:projects/service:Service::api-compute",
        f"{start}{kind}::us-central1-images",
        f"{start}{kind}$gcp:artifactregistry/repository:Repository::us-central1-images",
        f"{start}gke-inference:index:ImageBuild::images-build",
    ]
    found = images_bootstrap.missing_targets(resolve(read("prod")), there)
    assert not [each for each in found if each.endswith(("::api-compute", "::us-central1-images"))]
    assert [each for each in found if each.endswith("::europe-west4-images")]
    assert [each for each in found if each.endswith("::api-artifactregistry")]
    assert [each for each in found if ":ImageBuild::" in each]


@pytest.mark.parametrize(
    ("component", "made", "left"),
    [
        ("ImageBuilder", "serviceaccount/account:Account::images-builder", "images-builder-logs"),
        ("ImageAttestor", "kms/cryptoKey:CryptoKey::images", "images-signer-0"),
    ],
)
def test_a_first_step_resumes_in_the_middle_of_a_component(component, made, left):
    start = f"urn:pulumi:prod::gke-inference::gke-inference:index:{component}"
    there = [f"{start}::images", f"{start}$gcp:{made}"]
    found = images_bootstrap.missing_targets(resolve(read("prod")), there)
    absent = f"{start}$gcp:any/member:Member::{left}"
    assert [each for each in found if re.fullmatch(images_bootstrap.expression(each), absent)]


def test_a_policy_on_which_clusters_depend_is_no_target_again():
    start = "urn:pulumi:prod::gke-inference::gke-inference:index:ImageAdmission"
    policy = f"{start}$gcp:binaryauthorization/policy:Policy::images-admission"
    found = images_bootstrap.missing_targets(
        resolve(read("prod")), [f"{start}::images-admission", policy]
    )
    assert not [each for each in found if ":ImageAdmission" in each]


def test_a_first_step_that_fails_is_an_error():
    says = "`pulumi up` of prod ended with code 255; nothing is lost, run it again"
    with pytest.raises(ImagesError, match=f"^{says}$"):
        images_bootstrap.create(Cli(code=255), resolve(stack()), "prod", yes=True)


def test_the_first_step_prints_what_comes_next():
    lines = list(images_bootstrap.next_steps(resolve(stack()).images, "prod", ["callout", "relay"]))
    assert lines == [
        "gke-inference images build --stack prod --local --only callout --only relay",
        "gke-inference images pin --stack prod --only callout --only relay   # after the builds",
    ]
    assert "--local" not in next(
        images_bootstrap.next_steps(resolve(read("prod")).images, "prod", ["callout"])
    )


def dry_run(monkeypatch, cli):
    """Return the lines that a dry run prints with this `pulumi`."""
    monkeypatch.setattr(command, "_pulumi", lambda stack, on_twin: cli)
    answer = CliRunner().invoke(command.images, ["bootstrap", "--dry-run", "--stack", "prod"])
    assert answer.exit_code == 0, answer.output
    return answer.stdout.splitlines()


def test_a_dry_run_prints_what_the_first_step_does(monkeypatch):
    cli = Cli()
    outputs, update = dry_run(monkeypatch, cli)
    assert outputs == "pulumi stack output --json -s prod > /tmp/prod-outputs.json"
    given, _, command = update.partition(" pulumi ")
    assert given == (
        "GKE_INFERENCE_UNBUILT_IMAGES=first:prod GKE_INFERENCE_STACK_OUTPUTS=/tmp/prod-outputs.json"
    )
    images_bootstrap.create(cli, resolve(read("prod")), "prod", yes=False)
    ((ran, _),) = cli.ran  # by the command itself: the dry run changed nothing
    assert shlex.split(command) == list(ran)


def test_a_dry_run_for_a_deployed_stack_has_only_the_targets_that_are_missing(monkeypatch):
    service = "urn:pulumi:prod::gke-inference::gcp:projects/service:Service::api-compute"
    _, update = dry_run(monkeypatch, Cli(known=[service]))
    targets = [each for each in shlex.split(update) if each.startswith("urn:")]
    assert targets == images_bootstrap.missing_targets(resolve(read("prod")), [service])


@pytest.mark.parametrize("attestation", ["audit", "enforce"])
@pytest.mark.parametrize(
    "arguments", [["bootstrap", "--dry-run"], ["build", "--dry-run", "--revision", "1"], ["list"]]
)
def test_a_stack_without_a_reason_for_tags_can_make_its_images(
    monkeypatch, tmp_path, attestation, arguments
):
    document = platform_of(STACKS / "Pulumi.prod.yaml")
    del document["unpinned_images"]
    document["images"] |= {"attestation": attestation}
    folder = tmp_path / "stacks"
    folder.mkdir()
    text = json.dumps({"config": {"gke-inference:platform": document}})
    (folder / "Pulumi.prod.yaml").write_text(text)
    monkeypatch.setattr(options, "read", partial(read, folder=folder))
    with pytest.raises(StackError, match="gke-inference images prepare"):
        read("prod", folder)
    if arguments[0] == "build":
        arguments = [*arguments, "--only", "callout"]
    monkeypatch.setattr(command, "_pulumi", lambda stack, on_twin: Cli())
    answer = CliRunner().invoke(command.images, [*arguments, "--stack", "prod"])
    assert answer.exit_code == 0, answer.output
