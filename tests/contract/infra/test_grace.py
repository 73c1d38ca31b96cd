"""How long replicas may take to end, within what the autoscaler grants."""

import json

import pytest

from infra.reading.load import parse, read
from tests.contract.infra.broken_stacks import edited
from tests.contract.infra.cloud import Deployed
from tests.contract.infra.test_program import named


@pytest.mark.parametrize("stack", ["local", "dev", "staging", "prod"])
def test_a_replica_with_the_default_timeout_ends_before_the_autoscaler_removes_its_node(
    deployed: Deployed, stack: str
) -> None:
    grace = {
        made.inputs["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        for made in deployed(read(stack)).all("kubernetes:apps/v1:Deployment")
        if "cloud.google.com/compute-class"
        in made.inputs["spec"]["template"]["spec"].get("nodeSelector", {})
    }
    assert 480 + 75 in grace  # the longest answer, and what comes before and after it
    assert max(grace) <= 600


def test_replicas_on_autopilot_end_within_ten_minutes(deployed: Deployed) -> None:
    edits = [{"at": ["models", "llama-3.1-8b", "timeout_seconds"], "value": 600}]
    made = deployed(parse(json.dumps(edited("staging", edits)))).registrations
    grace = {
        name.partition("-llama")[0]: made.inputs["spec"]["template"]["spec"][
            "terminationGracePeriodSeconds"
        ]
        for name, made in named(made, "Deployment").items()
        if made.inputs["metadata"]["name"] == "llama-3-1-8b-gpu"
    }
    assert grace == {"us-central1": 675, "us-east1": 570}


@pytest.mark.parametrize(
    ("timeout", "grace"),
    [
        pytest.param(480, 480 + 25, id="the longest response, and what the load balancer needs"),
        pytest.param(3600, 600, id="no longer than the autoscaler allows"),
    ],
)
def test_a_terminating_picker_outlives_the_responses_that_it_observes(
    deployed: Deployed, timeout: int, grace: int
) -> None:
    edits = [{"at": ["models", "llama-3.1-8b", "timeout_seconds"], "value": timeout}]
    made = deployed(parse(json.dumps(edited("local", edits))))
    spec = made.object("kubernetes:apps/v1:Deployment", "llama-3-1-8b-picker")["spec"]
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == grace
    # a successor does not wait for it: Recreate would
    assert spec["strategy"] == {
        "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "100%"},
        "type": "RollingUpdate",
    }


def test_what_follows_each_answer_to_its_end_outlives_it(deployed: Deployed) -> None:
    made = deployed(read("prod")).all("kubernetes:apps/v1:Deployment")
    grace = {
        each.inputs["metadata"]["labels"]["app.kubernetes.io/component"]: each.inputs["spec"][
            "template"
        ]["spec"]["terminationGracePeriodSeconds"]
        for each in made
        if each.inputs["metadata"]["name"].endswith(("client-gate", "body-router", "catalogue"))
    }
    assert grace == {"body-router": 600, "client-gate": 600, "model-catalogue": 50}
