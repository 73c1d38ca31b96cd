import json
import subprocess
from typing import Any

import pytest

from scripts.check import render
from scripts.shared import preview_states
from scripts.terminal.console import CommandError
from twin.wire.property_values import UNKNOWN

CLUSTER = "urn:pulumi:dev::p::gcp:container/cluster:Cluster::east"
PROVIDER = "urn:pulumi:dev::p::pulumi:providers:kubernetes::east"


def states(*objects, kubeconfig_from=(CLUSTER,)):
    cluster = {"urn": CLUSTER, "type": "gcp:container/cluster:Cluster", "inputs": {"name": "c-1"}}
    provider = {
        "urn": PROVIDER,
        "type": "pulumi:providers:kubernetes",
        "inputs": {},
        "propertyDependencies": {"kubeconfig": list(kubeconfig_from)},
    }
    return [cluster, provider, *objects]


def config_map(name="a", provider=PROVIDER, **data):
    return {
        "urn": f"urn:pulumi:dev::p::kubernetes:core/v1:ConfigMap::{name}",
        "type": "kubernetes:core/v1:ConfigMap",
        "provider": f"{provider}::id",
        "inputs": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "serving"},
            "data": data,
        },
    }


def test_objects_are_written_under_the_cluster_they_go_to(tmp_path):
    assert render.write(states(config_map(k="v")), tmp_path) == (1, 3)
    file = tmp_path / "manifests" / "c-1" / "serving" / "configmap.core-a.yaml"
    assert "k: v" in file.read_text()


def test_two_renders_of_one_preview_are_the_same_bytes(tmp_path):
    items = states(config_map(k="v"))
    render.write(items, tmp_path / "a")
    render.write(list(reversed(items)), tmp_path / "b")
    read = [(tmp_path / name / "resources.json").read_bytes() for name in "ab"]
    assert read[0] == read[1]


def test_an_object_that_is_no_longer_there_loses_its_file(tmp_path):
    render.write(states(config_map(k="v")), tmp_path)
    render.write(states(), tmp_path)
    assert list(tmp_path.rglob("*.yaml")) == []


def test_a_value_that_is_not_known_yet_is_readable():
    assert render.without_unknowns({"a": [f"x/{UNKNOWN}"]}) == {
        "a": [f"x/{preview_states.NOT_KNOWN}"]
    }


def test_two_objects_of_one_name_are_an_error(tmp_path):
    with pytest.raises(CommandError, match="must be one object, got two"):
        render.write(states(config_map("a"), config_map("b")), tmp_path)


def test_a_kubeconfig_of_no_cluster_is_an_error(tmp_path):
    with pytest.raises(CommandError, match="its kubeconfig must come from one cluster, got 0"):
        render.write(states(kubeconfig_from=()), tmp_path)


def test_an_object_on_the_default_provider_is_an_error(tmp_path):
    lost = config_map(provider="urn:pulumi:dev::p::pulumi:providers:kubernetes::default")
    with pytest.raises(CommandError, match="must have the provider of a cluster"):
        render.write(states(lost), tmp_path)


def test_a_failed_preview_is_told_by_its_errors_alone():
    output = (
        '{"diagnostics": [{"message": "zone must be one of a, b", "severity": "error"},'
        ' {"message": "zone must be one of a, b", "severity": "error"},'
        ' {"message": "slow", "severity": "info"}]}'
    )
    assert preview_states.preview_errors(output) == "zone must be one of a, b"
    assert preview_states.preview_errors("no json") == ""


def test_a_stack_that_is_wrong_is_one_message_before_an_engine_starts():
    with pytest.raises(
        CommandError, match=r"--stack: must be one of .*'prood'; did you mean 'prod'"
    ):
        render.render("prood")


class FailingEngine:
    """Makes stacks and fails to preview them, as the CLI answers with --json."""

    def run(self, *arguments, **options):
        del options
        if arguments[0] == "stack":
            return subprocess.CompletedProcess(arguments, 0, "", "")
        said = {"steps": [], "diagnostics": [{"message": "zone: must be a", "severity": "error"}]}
        return subprocess.CompletedProcess(arguments, 255, json.dumps(said), "")


def test_a_preview_that_fails_says_why_and_nothing_of_its_json():
    engine: Any = FailingEngine()
    with pytest.raises(CommandError) as caught:
        render.preview_states(engine, "local")
    assert str(caught.value) == "the preview of local failed: zone: must be a"
