"""A model without replicas: where its requests wait, and what starts and ends its first replica."""

import copy
import json
from typing import Any

import pytest

from infra.estimate.cold_starts import starts
from infra.plan import resolve
from infra.reading.load import parse, platform_of
from infra.stack.problems import StackError
from tests.shipped_stacks import EXAMPLES

MODEL = "llama-3.1-8b"
POOL = "llama-3-1-8b"
ENGINES = f"{POOL}-gpu"
RELAY = f"relay-{POOL}"
DEMANDED = "prometheus.googleapis.com|gke_inference:demanded_replicas|gauge"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"


def document() -> dict[str, Any]:
    """Return the example of the repository, for a test to change."""
    return copy.deepcopy(platform_of(EXAMPLES / "from-zero" / "Pulumi.from-zero.yaml"))


def with_fallback() -> dict[str, Any]:
    """Return the example of backends, whose model starts from zero."""
    made = copy.deepcopy(platform_of(EXAMPLES / "backends" / "Pulumi.backends.yaml"))
    for region in made["regions"].values():
        region["release_channel"] = "rapid"
    model = made["models"][MODEL]
    del model["form"]
    model["replicas"] = {"min": 0, "max": 4}
    for capacity in made["capacity"].values():
        capacity["rungs"] = [one for one in capacity["rungs"] if "nvidia" in one["accelerator"]]
    return made


def settings(seen: Any) -> dict[str, Any]:
    return json.loads(seen.object(CONFIG_MAP, RELAY)["data"]["relay.yaml"])


@pytest.fixture
def seen(deployed) -> Any:
    return deployed(parse(json.dumps(document())))


def test_requests_wait_in_a_replica_of_the_pool_that_calls_no_backend(seen):
    found = settings(seen)
    plan = resolve(parse(json.dumps(document())))
    lead = round(starts(plan)[0].start.lead_seconds)
    assert found["backends"] == {}
    assert found["fallback"]["wait"] == {"expected_seconds": lead, "requests": 64, "seconds": 600}
    assert "count" not in found["fallback"]
    pod = seen.object(DEPLOYMENT, RELAY)["spec"]["template"]
    pool = seen.one("kubernetes:inference.networking.k8s.io/v1:InferencePool").inputs["spec"]
    selected = pool["selector"]["matchLabels"].items()
    assert selected <= pod["metadata"]["labels"].items()
    assert pod["spec"]["terminationGracePeriodSeconds"] > 900
    (rule,) = seen.object("kubernetes:rbac.authorization.k8s.io/v1:Role", RELAY)["rules"]
    assert rule == {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}


def test_everything_on_the_way_of_a_request_lets_it_wait_as_long_as_the_relay(seen):
    longest = settings(seen)["fallback"]["wait"]["seconds"]
    policies = seen.all("kubernetes:networking.gke.io/v1:GCPBackendPolicy")
    limits = {
        each.inputs["metadata"]["name"]: each.inputs["spec"]["default"]["timeoutSec"]
        for each in policies
        if not each.inputs["metadata"]["name"].endswith("-catalogue")  # no prompt is sent there
    }
    assert POOL in limits
    assert min(limits.values()) > longest
    grace = seen.object(DEPLOYMENT, RELAY)["spec"]["template"]["spec"]
    assert grace["terminationGracePeriodSeconds"] > longest


def test_demand_starts_the_first_replica_and_ends_the_last(seen):
    scaler = seen.one("kubernetes:autoscaling/v2:HorizontalPodAutoscaler").inputs["spec"]
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (0, 2)
    external = scaler["metrics"][0]["external"]
    assert external["metric"]["name"] == DEMANDED
    assert external["target"] == {"averageValue": "1", "type": "AverageValue"}
    # what starts at zero, the autoscaler takes for switched off
    engines = seen.object(DEPLOYMENT, ENGINES)["metadata"]["annotations"]
    assert engines["gke-inference/replicas"] == "1"  # what the gate of weights starts
    rules = seen.one("kubernetes:monitoring.googleapis.com/v1:Rules").inputs["spec"]["groups"]
    (rule,) = rules[0]["rules"]
    pods = "-[a-z0-9]+(-[a-z0-9]+)?"
    relay = f'{{namespace="models",pod=~"({RELAY}){pods}"}}'
    engines = f'{{namespace="models",pod=~"({ENGINES}){pods}"}}'
    assert rule["record"] == "gke_inference:demanded_replicas"
    assert rule["expr"] == (
        f"((sum(relay_waiting_requests{relay}) or vector(0))"
        f" + (sum(increase(relay_wakes_total{relay}[900s])) or vector(0))"
        f" + (sum(increase(vllm:request_success_total{engines}[900s])) or vector(0))"
        f" + (sum(vllm:num_requests_waiting{engines}) or vector(0))"
        f" + (sum(vllm:num_requests_running{engines}) or vector(0))) > bool 0"
    )


def test_a_fallback_answers_while_the_first_replica_starts(deployed):
    seen = deployed(parse(json.dumps(with_fallback())))
    found = settings(seen)
    assert sorted(found["backends"]) == [MODEL]
    assert found["fallback"]["monthly_usd"] > 0
    assert found["fallback"]["wait"]["requests"] == 64


def test_no_replica_is_no_reason_for_an_alert(seen):
    alerts = [each.inputs for each in seen.all("gcp:monitoring/alertPolicy:AlertPolicy")]
    queries = [
        condition["conditionPrometheusQueryLanguage"]["query"]
        for alert in alerts
        for condition in alert["conditions"]
        if "conditionPrometheusQueryLanguage" in condition
    ]
    gone = [each for each in queries if "absent(vllm:" in each and f'job="{POOL}"' in each]
    assert queries
    assert not gone


def test_requests_for_a_model_that_keeps_a_replica_wait_only_with_hold(deployed):
    without = deployed(parse(json.dumps(change(replicas={"min": 1, "max": 2}))))
    assert RELAY not in {each.inputs["metadata"]["name"] for each in without.all(DEPLOYMENT)}
    limits = {"requests": 8, "seconds": 120}
    seen = deployed(parse(json.dumps(change(replicas={"min": 1, "max": 2, "hold": limits}))))
    wait = settings(seen)["fallback"]["wait"]
    assert (wait["requests"], wait["seconds"]) == (8, 120)
    scaler = seen.one("kubernetes:autoscaling/v2:HorizontalPodAutoscaler").inputs["spec"]
    assert scaler["minReplicas"] == 1
    assert DEMANDED not in json.dumps(scaler["metrics"])
    alerts = [each.inputs for each in seen.all("gcp:monitoring/alertPolicy:AlertPolicy")]
    queries = json.dumps(alerts)
    assert "relay_waits_total" in queries
    assert f'job=\\"{POOL}\\"' in queries.split("absent(vllm:")[1]  # no replica is an alert


def change(**model: Any) -> dict[str, Any]:
    made = document()
    made["models"][MODEL] |= model
    return made


def zero(**changes: Any) -> dict[str, Any]:
    return {"min": 0, "max": 2, **changes}


WHERE = f"models.{MODEL}.replicas"


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            change(engine="tgi"),
            f"{WHERE}.min must be at least 1 unless an endpoint picker compares the queues of vLLM"
            " or SGLang, got 0",
        ),
        (
            change(canary={"version": "next", "weights": "llama-3.1-8b-next"}),
            f"{WHERE}.min must be at least 1 with a canary,",
        ),
        (
            change(replicas=zero(from_zero={"seconds": 900})),
            f"{WHERE}.from_zero.seconds must be less than timeout_seconds (900)",
        ),
        (
            change(replicas=zero(from_zero={"idle_seconds": 60}))
            | {"monitoring": {"metrics_adapter": False, "scrape_seconds": 30}},
            f"{WHERE}.from_zero.idle_seconds must be at least 3 times the interval of scrapes, 30",
        ),
        (
            change(replicas={"min": 1, "max": 2, "from_zero": {"requests": 2}}),
            f"{WHERE}.from_zero must not be set unless min is 0",
        ),
        (
            change(replicas=zero(hold={"requests": 2})),
            f"{WHERE}.hold must not be set with min 0, whose requests wait as from_zero says",
        ),
        (
            change(replicas={"min": 1, "max": 2, "hold": {"seconds": 900}}),
            f"{WHERE}.hold.seconds must be less than timeout_seconds (900)",
        ),
        (
            change(engine="tgi", replicas={"min": 1, "max": 2, "hold": {}}),
            f"{WHERE}.hold must not be set unless an endpoint picker compares the queues of vLLM",
        ),
        (
            change(
                replicas={"min": 1, "max": 2},
                canary={
                    "version": "next",
                    "weights": "x",
                    "replicas": {"min": 1, "max": 1, "hold": {}},
                },
            ),
            f"models.{MODEL}.canary.replicas.hold must not be set: requests wait for no canary",
        ),
        (
            change(
                replicas={"min": 1, "max": 2},
                canary={"version": "next", "weights": "x", "replicas": {"min": 0, "max": 1}},
            ),
            f"models.{MODEL}.canary.replicas.min must be at least 1: a canary always has a replica",
        ),
    ],
)
def test_what_cannot_start_from_zero_is_refused(made: dict[str, Any], message: str):
    with pytest.raises(StackError) as found:
        parse(json.dumps(made))
    assert message in str(found.value)


def test_a_cluster_whose_autoscaler_does_not_scale_to_zero_is_refused():
    made = document()
    made["regions"]["europe-west4"]["release_channel"] = "stable"
    with pytest.raises(StackError, match=r"replicas\.min must be at least 1 in europe-west4: scal"):
        parse(json.dumps(made))
