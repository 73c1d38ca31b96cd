"""Losses that the real engine reports, and replacements after an upgrade of an API."""

import json

import pytest

from infra.plan.stateful import STATEFUL
from scripts.shared.data_loss import losses, refuse_losses, unnamed
from scripts.shared.platform_state import write_state
from scripts.shared.pulumi_cli import EVENTS, event_log
from scripts.shared.scratch_project import backend, scratch_project
from scripts.terminal.console import CommandError
from tests.preview.checkpoint import checkpoint
from twin.host.paths import REPOSITORY

pytestmark = pytest.mark.needs_tools

STACK = "dev"
TEXT = (REPOSITORY / "stacks" / f"Pulumi.{STACK}.yaml").read_text()
POOL = "inference.networking.k8s.io"
OLD_POOL = "inference.networking.x-k8s.io"


class Deployed:
    """A stack that an earlier version of its file or of the program has brought up."""

    def __init__(self, engine, folder, states):
        self.engine, self.folder = engine, folder
        self.project = scratch_project(folder, STACK, TEXT)
        self.place = {
            "capture": True,
            "environment": {**backend(folder), **EVENTS},
            "project": self.project,
        }
        self.state = json.dumps(checkpoint(states))

    def preview(self, *, text=TEXT, state=None):
        """Return the event log of a preview of `text` over a state."""
        answer, events = self.previewed(text, state)
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return events

    def previewed(self, text, state=None):
        """Preview `text` over a state; return what the CLI did, and the event log."""
        events = self.folder / "events.json"
        resources = json.loads(state or self.state)["deployment"]["resources"]
        write_state(self.folder / "state", STACK, *resources)
        events.unlink(missing_ok=True)
        (self.project / "stacks" / f"Pulumi.{STACK}.yaml").write_text(text)
        arguments = ("preview", "-s", STACK, "--suppress-outputs", *event_log(events))
        return self.engine.run(*arguments, **self.place), events

    def protected_state(self):
        """Return the state after an `up` of the stack with protection."""
        state = json.loads(self.state)
        for each in state["deployment"]["resources"]:
            if each["type"] in STATEFUL:
                each["protect"] = True
        return json.dumps(state)


def steps_of(events):
    lines = events.read_text().splitlines()
    found = [json.loads(line).get("resourcePreEvent", {}) for line in lines]
    return [each["metadata"] for each in found if each]


@pytest.fixture(scope="module")
def deployed(engine, states, tmp_path_factory):
    return Deployed(engine, tmp_path_factory.mktemp("deployed"), states(STACK))


@pytest.mark.soak  # the last test has an unchanged stack whose pools move
def test_an_unchanged_stack_loses_nothing(deployed):
    events = deployed.preview()
    refuse_losses(STACK, events)
    assert {step["op"] for step in steps_of(events)} <= {"same", "update"}


def test_what_another_name_would_replace_is_refused_with_names_and_reasons(deployed):
    events = deployed.preview(text=TEXT.replace("prefix: acme", "prefix: acma"))
    with events.open() as lines:
        found = losses(lines)
    kinds = {loss.kind for loss in found}
    assert {"Bucket", "Cluster", "NodePool"} <= kinds
    cluster = next(loss for loss in found if loss.kind == "Cluster")
    assert cluster.action == "replace"
    assert "subnetwork" in cluster.because
    with pytest.raises(CommandError, match=rf"allow_replace: \[.*{cluster.name}"):
        refuse_losses(STACK, events)
    assert list(unnamed(found, [loss.name for loss in found])) == []
    assert cluster not in list(unnamed(found, [cluster.name]))


def test_the_engine_itself_refuses_to_replace_what_a_stack_protects(deployed):
    team = "{kind: email, address: team@example.com, severity: critical}"
    receiver = f"monitoring: {{notify: {{team: {team}}}}}"
    text = TEXT.replace("protection: false", f"protection: true\n    {receiver}")
    text = text.replace("prefix: acme", "prefix: acma")
    answer, events = deployed.previewed(text, deployed.protected_state())
    assert answer.returncode != 0
    assert "as it is currently marked for protection" in answer.stdout + answer.stderr
    with pytest.raises(CommandError, match="would lose protected resources"):
        refuse_losses(STACK, events)


def test_moving_pools_to_the_next_api_replaces_nothing_that_holds_state(deployed):
    old = (
        deployed.state.replace(
            f"kubernetes:{POOL}/v1:InferencePool", f"kubernetes:{OLD_POOL}/v1alpha2:InferencePool"
        )
        .replace(f'"apiVersion": "{POOL}/v1"', f'"apiVersion": "{OLD_POOL}/v1alpha2"')
        .replace(f'"group": "{POOL}"', f'"group": "{OLD_POOL}"')
    )
    assert old != deployed.state
    steps = steps_of(deployed.preview(state=old))
    changed = [(step["op"], step["type"]) for step in steps if step["op"] != "same"]
    assert not {kind for _, kind in changed} & STATEFUL
    # the group is part of a type: a pool of the new API is made, then the old one goes
    made = ("create", f"kubernetes:{POOL}/v1:InferencePool")
    gone = ("delete", f"kubernetes:{OLD_POOL}/v1alpha2:InferencePool")
    route = ("update", "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute")
    assert changed.index(made) < changed.index(route) < changed.index(gone)
    others = {kind for operation, kind in changed if operation not in {"update"}}
    assert others == {made[1], gone[1]}
