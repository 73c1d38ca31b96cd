"""Receivers of alerts, whose secrets are in the engine's configuration."""

import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.runtime import set_all_config

from infra.reading.built import ACCEPT, UNBUILT
from infra.reading.load import KEY, PROJECT
from tests.contract.infra.broken_stacks import edited
from tests.contract.infra.cloud import CloudRecorder

PROGRAM = str(Path(__file__).parents[3] / "infra" / "__main__.py")
RECEIVERS = {
    "channel": {"kind": "slack", "channel": "#models"},
    "oncall": {"kind": "pagerduty", "severity": "critical"},
    "team": {"kind": "email", "address": "team@example.com"},
}


@pytest.fixture(autouse=True)
def _no_configuration_after(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(UNBUILT, ACCEPT)  # the image of the body router
    yield
    set_all_config({})


def configure(**secrets: str) -> None:
    """Give the engine a stack with receivers, and secrets by the name of the receiver."""
    edits = [{"at": ["monitoring", "notify"], "value": RECEIVERS}]
    platform = {f"{PROJECT}:{KEY}": json.dumps(edited("local", edits))}
    kept = {f"{PROJECT}:notify-{name}": value for name, value in secrets.items()}
    set_all_config({**platform, **kept}, secret_keys=list(kept))


def run() -> None:
    runpy.run_path(PROGRAM, run_name="__main__")


def test_receivers_are_told_with_the_secrets_of_the_configuration(cloud: CloudRecorder) -> None:
    configure(channel="xoxb-1", oncall="key-1")
    cloud.run(run)
    channels: dict[str, Any] = {
        seen.inputs["type"]: seen.inputs
        for seen in cloud.registrations
        if seen.type.endswith(":NotificationChannel")
    }
    assert set(channels) == {"email", "pagerduty", "slack"}
    assert "xoxb-1" in json.dumps(channels["slack"]["sensitiveLabels"])
    assert "key-1" in json.dumps(channels["pagerduty"]["sensitiveLabels"])


def test_every_missing_secret_is_named_before_anything_is_made(cloud: CloudRecorder) -> None:
    configure()
    with pytest.raises(pulumi.RunError) as refused:
        run()
    assert str(refused.value).splitlines() == [
        f"Pulumi.test.yaml: monitoring.notify.{name} must have a secret when kind is {kind}, "
        f"got none: pulumi config set --secret gke-inference:notify-{name}"
        for name, kind in (("channel", "slack"), ("oncall", "pagerduty"))
    ]
    assert cloud.registrations == []


def test_a_receiver_with_its_secret_is_not_complained_about(cloud: CloudRecorder) -> None:
    configure(channel="xoxb-1")
    with pytest.raises(pulumi.RunError, match=r"notify\.oncall") as refused:
        run()
    assert "notify.channel" not in str(refused.value)
    assert cloud.registrations == []
