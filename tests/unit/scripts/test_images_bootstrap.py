"""`gke-inference images bootstrap`, with a fake `pulumi`."""

import json
import subprocess
from dataclasses import replace

import pytest

from infra.reading.load import STACKS, parse, platform_of, read
from scripts.images import bootstrap as images_bootstrap
from scripts.images.actions import ImagesError
from scripts.shared.pulumi_cli import PulumiCli
from twin.host.paths import REPOSITORY

ONE = "sha256:" + "1a" * 32


def stack():
    """Return prod with a repository and no triggers."""
    document = platform_of(STACKS / "Pulumi.prod.yaml")
    document["images"] = {"repository": "engines"}
    return parse(json.dumps(document))


@pytest.fixture
def pinned_base(monkeypatch):
    """Give the base of our Go programs a digest, as `images pin` does."""
    known = images_bootstrap.builds()
    base = replace(known["callout"].base, digest=ONE)
    made = {**known, "callout": replace(known["callout"], base=base)}
    monkeypatch.setattr(images_bootstrap, "builds", lambda: made)


class Cli(PulumiCli):
    """Stands in for `pulumi`."""

    def __init__(self, outputs=None, code=0):
        super().__init__({})
        self.ran, self.kept, self.code = [], outputs or {}, code

    def outputs(self, name):
        return self.kept

    def run(self, *arguments, capture=False, environment=None, project=REPOSITORY):
        self.ran.append((arguments, environment))
        return subprocess.CompletedProcess(arguments, self.code)


def test_the_first_step_needs_a_base_with_a_digest():
    with pytest.raises(ImagesError, match=r"bases\.go: must have a digest in versions\.yaml"):
        images_bootstrap.check(stack())


def test_the_first_step_needs_a_repository():
    with pytest.raises(ImagesError, match=r"images: is required in the stack"):
        images_bootstrap.check(read("local"))


@pytest.mark.parametrize(("outputs", "mode"), [({}, "first"), ({"endpoint": "x"}, "accept")])
def test_the_first_step_is_a_targeted_update(outputs, mode, pinned_base):
    cli = Cli(outputs)
    assert images_bootstrap.check(stack()) == ["callout"]
    images_bootstrap.create(cli, "prod", yes=True)
    ((arguments, environment),) = cli.ran
    assert arguments[:4] == ("up", "-s", "prod", "--target")
    assert environment == {"GKE_INFERENCE_UNBUILT_IMAGES": mode}
    assert arguments.count("--target") == len(images_bootstrap.TARGETS)


def test_a_first_step_that_fails_is_an_error():
    with pytest.raises(ImagesError, match="up of prod failed"):
        images_bootstrap.create(Cli(code=255), "prod", yes=True)


def test_the_first_step_prints_what_comes_next():
    lines = list(images_bootstrap.next_steps(stack(), "prod", ["callout", "relay"]))
    assert lines == [
        "gke-inference images build --stack prod --local --only callout --only relay",
        "gke-inference images pin --stack prod --only callout --only relay   # after the builds",
    ]
    assert "--local" not in next(images_bootstrap.next_steps(read("prod"), "prod", ["callout"]))
