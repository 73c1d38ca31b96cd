"""Data that would be lost, from the engine's events."""

import json
import re
import subprocess
from types import SimpleNamespace

import pytest

from infra.plan.stateful import name_in_cloud
from scripts.shared import data_loss as module
from scripts.shared.data_loss import guard, losses, refuse_losses, unnamed
from scripts.shared.engine import Engine
from scripts.shared.pulumi_cli import EVENTS
from scripts.terminal.console import CheckFailedError, CommandError

CLUSTER = "gcp:container/cluster:Cluster"


def event(operation, kind=CLUSTER, logical="main", name="acme-main", keys=None):
    urn = f"urn:pulumi:prod::gke-inference::{kind}::{logical}"
    step = {"op": operation, "type": kind, "urn": urn, "keys": keys}
    step["old"] = {"inputs": {"name": name}}
    return json.dumps({"resourcePreEvent": {"metadata": step}})


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write events, and let the stack allow some names."""

    def write(*lines, allowed=()):
        file = tmp_path / "events.json"
        file.write_text("\n".join(lines) + "\n")
        monkeypatch.setattr(module, "read", lambda _: SimpleNamespace(allow_replace=allowed))
        return file

    return write


def test_a_replacement_is_one_loss_though_the_engine_takes_three_steps():
    found = losses(
        [
            event("delete-replaced"),
            event("replace", keys=["network"]),
            event("create-replacement", keys=["network", "subnetwork"]),
        ]
    )
    assert [str(loss) for loss in found] == [
        "replace Cluster acme-main (changes: network, subnetwork)"
    ]


def test_a_delete_is_a_loss_and_what_is_made_or_changed_is_none():
    lines = [event("create"), event("update", logical="b"), event("delete", logical="c"), ""]
    assert [str(loss) for loss in losses(lines)] == ["delete Cluster acme-main"]


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [
        ("gcp:lustre/instance:Instance", {"instanceId": "acme-data"}),
        ("gcp:artifactregistry/repository:Repository", {"repositoryId": "acme-data"}),
        ("kubernetes:core/v1:PersistentVolumeClaim", {"metadata": {"name": "acme-data"}}),
    ],
)
def test_a_loss_is_allowed_by_the_name_that_the_cloud_has(kind, inputs):
    step = json.loads(event("delete", kind))
    step["resourcePreEvent"]["metadata"]["old"]["inputs"] = inputs
    found = losses([json.dumps(step)])
    assert [each.name for each in found] == ["acme-data"]
    assert list(unnamed(found, ["acme-data"])) == []
    as_registered = {re.sub("Id$", "_id", key): value for key, value in inputs.items()}
    assert name_in_cloud(as_registered) == "acme-data"


def test_what_holds_nothing_may_go():
    assert losses([event("delete", "kubernetes:apps/v1:Deployment")]) == []


def test_other_events_are_passed_over():
    assert (
        losses(['{"preludeEvent": {}}', '{"resourcePreEvent": {"metadata": {"op": "same"}}}']) == []
    )


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (
            'unable to replace resource "{urn}"\nas it is currently marked for protection. To',
            "replace Cluster main",
        ),
        (
            'unable to replace resource "{urn}" as part of replacing "urn:pulumi:x::y::z::a"\n'
            "as it is currently marked for protection. To unprotect",
            "replace Cluster main",
        ),
        ('resource "{urn}" cannot be deleted\nbecause it is protected. To', "delete Cluster main"),
    ],
)
def test_what_the_engine_refuses_to_lose_is_a_loss_though_no_step_shows_it(message, says):
    urn = f"urn:pulumi:prod::gke-inference::gke-inference:index:InferenceCluster${CLUSTER}::main"
    diagnostic = {"severity": "error", "message": message.format(urn=urn)}
    lines = [json.dumps({"diagnosticEvent": diagnostic}), json.dumps({"diagnosticEvent": {}})]
    assert [str(loss) for loss in losses(lines)] == [says]


def test_a_claim_is_called_by_its_name_in_the_cluster():
    kind = "kubernetes:core/v1:PersistentVolumeClaim"
    step = json.loads(event("delete", kind))
    step["resourcePreEvent"]["metadata"]["old"] = {"inputs": {"metadata": {"name": "weights"}}}
    assert losses([json.dumps(step)])[0].name == "weights"


@pytest.mark.parametrize("name", ["acme-main", "main"])
def test_a_loss_is_meant_when_the_stack_names_it(name):
    assert list(unnamed(losses([event("delete")]), [name])) == []


def test_a_loss_that_nobody_meant_is_refused_with_the_words_that_mean_it(written):
    lines = [event("delete"), event("replace", logical="b", name="acme-b", keys=["location"])]
    with pytest.raises(CheckFailedError) as error:
        refuse_losses("prod", written(*lines, allowed=("acme-main",)))
    assert "replace Cluster acme-b (changes: location)" in str(error.value)
    assert "acme-main" not in str(error.value)
    assert "allow_replace: [acme-b]" in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_meant_passes(written):
    refuse_losses("prod", written(event("delete"), allowed=("acme-main",)))


class FakeEngine(Engine):
    """An engine with some resources, whose preview writes events."""

    def __init__(self, resources, lines, code=0):
        self.resources, self.lines, self.code, self.calls = resources, lines, code, []

    def deployment(self, name):
        return {"resources": self.resources}

    def run(self, *arguments, capture=False, environment=None, project=None):
        self.calls.append(arguments)
        file = arguments[arguments.index("--event-log") + 1]
        with open(file, "w") as stream:
            stream.write("\n".join(self.lines))
        assert environment == EVENTS
        assert (capture, project) == (True, None)
        return subprocess.CompletedProcess(arguments, self.code, "", "it went wrong")


def test_an_update_of_a_stack_with_nothing_to_lose_needs_no_preview():
    engine = FakeEngine([{"type": "kubernetes:apps/v1:Deployment"}], [])
    guard(engine, "prod")
    assert engine.calls == []


def test_an_update_that_would_lose_something_is_refused(written):
    written()
    with pytest.raises(CommandError, match="delete Cluster acme-main"):
        guard(FakeEngine([{"type": CLUSTER}], [event("delete")]), "prod")


def test_an_update_whose_preview_fails_is_refused(written):
    written()
    with pytest.raises(CommandError, match="it went wrong"):
        guard(FakeEngine([{"type": CLUSTER}], [], code=1), "prod")


def test_a_switch_of_what_delivers_models_is_refused_until_the_stack_allows_it(written):
    kind = "kubernetes:configsync.gke.io/v1beta1:RepoSync"
    gone = event("delete", kind, logical="us-delivery", name="repo-sync")
    message = r"delete RepoSync repo-sync; to allow this, set allow_replace: \[repo-sync\]"
    with pytest.raises(CheckFailedError, match=message):
        refuse_losses("search", written(gone))
    refuse_losses("search", written(gone, allowed=("repo-sync",)))
