"""The pack's service answers as the SDK's does, from fewer readings."""

from dataclasses import replace
from typing import Any

import pulumi_policy as sdk
import pytest
from google.protobuf import struct_pb2
from pulumi.runtime.proto import analyzer_pb2 as pb
from pulumi_policy import policy
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE

from policies.pack import analyzer
from policies.pack.policies import all_policies
from policies.rules import resource_rules
from twin.pulumi import speedups

CLUSTER = "gcp:container/cluster:Cluster"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
_SDK: Any = policy._PolicyAnalyzerServicer


def _request(resource_type: str, props: dict[str, Any]) -> Any:
    properties = struct_pb2.Struct()
    properties.update(props)
    urn = f"urn:pulumi:prod::gke-inference::{resource_type}::it"
    return pb.AnalyzeRequest(type=resource_type, name="it", urn=urn, properties=properties)


def _service(kind: Any, seen: dict[str, Any]) -> Any:
    return kind("pack", "0.0.1", all_policies(seen), sdk.EnforcementLevel.MANDATORY)


def _ours(seen: dict[str, Any] | None = None) -> Any:
    seen = {} if seen is None else seen
    return _service(analyzer.analyzer_of(seen), seen)


def _configured(**levels: Any) -> Any:
    config = {name.replace("_", "-"): level for name, level in levels.items()}
    return pb.ConfigureAnalyzerRequest(
        policyConfig={
            name: pb.PolicyConfig(enforcementLevel=level) for name, level in config.items()
        }
    )


_POD = {"containers": [{"name": "server", "image": "server:latest"}]}
_RESOURCES = (
    (CLUSTER, {"name": "it", "location": "us-east5-a"}),
    (CLUSTER, {"name": "it", "location": UNKNOWN_STRING_VALUE}),
    (DEPLOYMENT, {"spec": {"template": {"spec": _POD}}}),
    (DEPLOYMENT, {"spec": UNKNOWN_STRING_VALUE}),
    (
        "gcp:compute/firewall:Firewall",
        {"sourceRanges": ["0.0.0.0/0"], "allows": [{"protocol": "all"}]},
    ),
    ("kubernetes:core/v1:Endpoints", {}),
    ("no:such/type:AtAll", {}),
)


@pytest.mark.parametrize(("resource_type", "props"), _RESOURCES)
@pytest.mark.parametrize(
    "levels", [{}, {"private_nodes": pb.DISABLED, "pinned_image": pb.ADVISORY}]
)
def test_it_answers_what_the_sdk_answers(resource_type, props, levels):
    request = _request(resource_type, props)
    answers: list[Any] = []
    for service in (_ours(), _service(_SDK, {})):
        service.Configure(_configured(**levels), None)
        answers.append(service.Analyze(request, None))
    assert answers[0] == answers[1]


def test_properties_are_read_once_for_all_policies_and_as_the_sdk_reads_them(monkeypatch):
    sdks = policy.json_format
    reading = analyzer.ReadOnce()
    monkeypatch.setattr(analyzer, "_JSON", reading)
    monkeypatch.setattr(policy, "json_format", reading)
    every_kind = {"a": [1, 0.5, None, True, {"b": "c", "d": []}], "e": {}, "location": "us-east5-a"}
    request = _request(CLUSTER, every_kind)
    readings: list[Any] = []
    monkeypatch.setattr(
        analyzer, "_plain", lambda found: readings.append(found) or sdks.MessageToDict(found)
    )
    answer = _ours().Analyze(request, None)
    assert len(answer.diagnostics) > 1
    assert len(readings) == 1
    monkeypatch.undo()
    reading.forget()
    assert reading.MessageToDict(request.properties) == sdks.MessageToDict(request.properties)
    assert answer == _service(_SDK, {}).Analyze(request, None)


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_a_number_that_json_does_not_have_is_refused_as_the_sdk_refuses_it(number):
    reading = analyzer.ReadOnce()
    reading.forget()
    with pytest.raises(ValueError, match="Fail to serialize"):
        reading.MessageToDict(_request(CLUSTER, {"a": number}).properties)


def test_the_resources_compared_break_rules_and_hold_what_is_not_known():
    answers = [_ours().Analyze(_request(*each), None).diagnostics for each in _RESOURCES]
    assert [bool(each) for each in answers] == [True, True, True, True, True, False, False]
    said = [each.message for answer in answers for each in answer]
    assert any("can't be known during preview" in message for message in said)


def test_a_level_that_is_set_after_a_resource_was_judged_counts_for_the_next():
    service, request = _ours(), _request(*_RESOURCES[0])
    before = {each.policyName for each in service.Analyze(request, None).diagnostics}
    assert "regional-cluster" in before
    service.Configure(_configured(regional_cluster=pb.DISABLED), None)
    after = {each.policyName for each in service.Analyze(request, None).diagnostics}
    assert before - after == {"regional-cluster"}


def test_a_stack_is_answered_for_as_by_the_sdk_with_the_service_in_its_place(monkeypatch):
    monkeypatch.setattr(policy, "_PolicyAnalyzerServicer", _SDK)
    requests = [_request(*each) for each in _RESOURCES]
    stack = pb.AnalyzeStackRequest(
        resources=[
            pb.AnalyzerResource(
                type=each.type, name=each.name, urn=each.urn, properties=each.properties
            )
            for each in requests
        ]
    )
    expected = _service(_SDK, {}).AnalyzeStack(stack, None)
    assert expected.diagnostics
    analyzer.serve_by_type({})
    assert policy._PolicyAnalyzerServicer is not _SDK
    assert _service(policy._PolicyAnalyzerServicer, {}).AnalyzeStack(stack, None) == expected


def test_one_variable_turns_off_the_pack_and_the_patches_of_the_twin():
    assert analyzer.OFF == speedups.OFF


def test_inputs_of_objects_are_kept_for_the_rules_about_the_stack():
    seen: dict[str, Any] = {}
    request = _request("kubernetes:core/v1:Endpoints", {"metadata": {"name": "it"}})
    _ours(seen).Analyze(request, None)
    assert seen[request.urn]["metadata"]["name"] == "it"


def test_a_rule_that_looks_at_more_than_the_type_to_apply_fails(monkeypatch):
    curious = replace(resource_rules()[0], applies=lambda resource: "zone" in resource.props)
    monkeypatch.setattr(analyzer, "resource_rules", lambda: (curious,))
    with pytest.raises(TypeError, match="by the type alone"):
        analyzer.idle_names(CLUSTER)


def test_no_rule_looks_at_a_type_that_nobody_knows():
    assert analyzer.idle_names("no:such/type:AtAll") == {rule.name for rule in resource_rules()}


@pytest.mark.parametrize(("value", "is_narrowed"), [("1", False), ("0", True), ("", True)])
def test_the_switch_puts_every_resource_to_every_policy(monkeypatch, value, is_narrowed):
    monkeypatch.setenv("GKE_INFERENCE_NO_SPEEDUPS", value)
    service, request = _ours(), _request(*_RESOURCES[0])
    answer = service.Analyze(request, None)
    assert (service._about(request.type) is not service) is is_narrowed
    assert answer == _service(_SDK, {}).Analyze(request, None)
