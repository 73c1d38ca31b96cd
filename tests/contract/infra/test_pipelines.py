"""Pipelines of a stack: the job, its topics, what its workers may do, and what is refused."""

import copy
import json
from typing import Any

import pytest

from infra.deploy.pipelines import subnet_url
from infra.estimate.quota_needs import needs
from infra.estimate.stack_cost import stack_cost
from infra.plan import resolve
from infra.reading.load import parse, platform_of
from infra.stack.problems import StackError
from tests.shipped_stacks import EXAMPLES
from workloads.pipelines.settings import Settings

_FILE = EXAMPLES / "pipelines" / "Pulumi.pipelines.yaml"
_NAME = "acme-pipelines-pipeline-payments"
_PROJECT = "projects/acme-inference-pipelines"
_WORKER = (
    "serviceAccount:acme-pipelines-pipe-payments@acme-inference-pipelines.iam.gserviceaccount.com"
)
_AT = "pipelines/payments"
_TEAM = ("clients", {"counters": "local", "teams": {"payments": {"requests_per_minute": 6000}}})
_KEY = (f"{_AT}/key_secret", "payments-key")


def edited(*edits: tuple[str, Any]) -> str:
    """Return the example after edits, each a path of keys with slashes and a value."""
    platform = copy.deepcopy(platform_of(_FILE))
    for path, value in edits:
        *way, last = path.split("/")
        place: Any = platform
        for key in way:
            place = place.setdefault(key, {})
        if value is None:
            del place[last]
        else:
            place[last] = value
    return json.dumps(platform)


def job(made: Any) -> dict[str, Any]:
    (found,) = made.all("gcp:dataflow/flexTemplateJob:FlexTemplateJob")
    return found.inputs


def test_the_job_runs_in_the_subnet_of_the_region_and_is_drained(deployed: Any) -> None:
    found = job(deployed(parse(edited())))
    assert found["name"] == _NAME
    assert found["subnetwork"].startswith("regions/us-central1/subnetworks/")
    assert found["ipConfiguration"] == "WORKER_IP_PRIVATE"
    assert (found["enableStreamingEngine"], found["onDelete"]) == (True, "drain")
    assert (found["numWorkers"], found["maxWorkers"]) == (1, 3)
    assert f"serviceAccount:{found['serviceAccountEmail']}" == _WORKER
    for field in ("containerSpecGcsPath", "stagingLocation", "tempLocation"):
        assert found[field].startswith(f"gs://{_NAME}/")


def test_the_template_declares_the_parameter_that_the_job_has(deployed: Any) -> None:
    made = deployed(parse(edited()))
    (template,) = made.all("gcp:storage/bucketObject:BucketObject")
    spec = json.loads(template.inputs["content"]["value"])  # the provider treats it as a secret
    assert [each["name"] for each in spec["metadata"]["parameters"]] == [*job(made)["parameters"]]
    assert spec["image"] == job(made)["sdkContainerImage"]
    assert job(made)["containerSpecGcsPath"].endswith(template.inputs["name"])


def test_the_pipeline_reads_the_settings_of_its_job(deployed: Any) -> None:
    found = Settings.of(job(deployed(parse(edited(_TEAM, _KEY))))["parameters"]["settings"])
    assert (found.model, found.key, found.group, found.value) == (
        "fraud",
        "card",
        "merchant",
        "amount_usd",
    )
    assert found.features[2] == "window_count"
    assert found.endpoint.startswith("http")
    assert found.subscription == "pipeline-payments-events-subscription-id"
    assert found.dead_letters == "pipeline-payments-dead-letters-topic-id"
    assert found.key_secret == f"{_PROJECT}/secrets/payments-key/versions/latest"


def test_workers_may_do_only_what_the_pipeline_does(deployed: Any) -> None:
    made = deployed(parse(edited(_TEAM, _KEY)))
    grants = {
        (each.type.rpartition(":")[2], place, each.inputs["role"])
        for each in made.registrations
        if each.inputs.get("member") == _WORKER
        for place in [
            each.inputs.get("topic")
            or each.inputs.get("subscription")
            or each.inputs.get("bucket")
            or each.inputs.get("secretId")
            or each.inputs["project"]
        ]
    }
    wide = {role for kind, _, role in grants if kind == "IAMMember"}
    tracking = next(role for role in wide if role != "roles/dataflow.worker")
    assert wide == {"roles/dataflow.worker", tracking}
    (custom,) = made.all("gcp:projects/iAMCustomRole:IAMCustomRole")
    assert custom.inputs["permissions"] == [
        "pubsub.subscriptions.create",
        "pubsub.subscriptions.delete",
    ]
    assert {each for each in grants if each[0] != "IAMMember"} == {
        ("TopicIAMMember", "pipeline-payments-events-topic-id", "roles/pubsub.subscriber"),
        ("TopicIAMMember", f"{_NAME}-scores", "roles/pubsub.publisher"),
        ("TopicIAMMember", f"{_NAME}-totals", "roles/pubsub.publisher"),
        ("TopicIAMMember", f"{_NAME}-dead-letters", "roles/pubsub.publisher"),
        ("SubscriptionIAMMember", _NAME, "roles/pubsub.subscriber"),
        ("SubscriptionIAMMember", _NAME, "roles/pubsub.viewer"),
        ("BucketIAMMember", _NAME, "roles/storage.objectAdmin"),
        (
            "SecretIamMember",
            f"{_PROJECT}/secrets/payments-key",
            "roles/secretmanager.secretAccessor",
        ),
    }


def test_the_image_of_a_repository_can_be_pulled_by_the_workers(deployed: Any) -> None:
    digest = "sha256:" + "a" * 64
    images = {"repository": "engines", "digests": {"pipelines": digest}}
    made = deployed(parse(edited(("images", images))))
    repository = "us-central1-docker.pkg.dev/acme-inference-pipelines/engines"
    assert job(made)["sdkContainerImage"] == f"{repository}/pipelines@{digest}"
    readers = [
        each.inputs
        for each in made.registrations
        if each.type.endswith(":RepositoryIamMember") and each.inputs["member"] == _WORKER
    ]
    assert [(each["repository"], each["role"]) for each in readers] == [
        ("engines", "roles/artifactregistry.reader")
    ]


def test_no_subscription_of_dataflow_has_a_dead_letter_policy(deployed: Any) -> None:
    made = deployed(parse(edited((f"{_AT}/topic", f"{_PROJECT}/topics/events"))))
    subscriptions = {each.inputs["name"]: each.inputs for each in made.all(
        "gcp:pubsub/subscription:Subscription"
    )}  # fmt: skip
    assert sorted(subscriptions) == [
        _NAME, f"{_NAME}-dead-letters", f"{_NAME}-scores", f"{_NAME}-totals",
    ]  # fmt: skip
    assert all("deadLetterPolicy" not in each for each in subscriptions.values())
    assert subscriptions[_NAME]["topic"] == f"{_PROJECT}/topics/events"


def test_dead_letters_and_backlog_of_a_pipeline_have_alerts(deployed: Any) -> None:
    alerts = json.dumps([each.inputs for each in deployed(parse(edited())).registrations])
    assert f"{_NAME}-dead-letters" in alerts
    assert "StreamLagging" in alerts


def test_cost_and_quota_have_the_workers() -> None:
    plan = resolve(parse(edited()))
    (workers,) = [each for each in stack_cost(plan).parts if "n1-standard-2" in each.what]
    hour = 2 * 0.069 + 7.5 * 0.0035557 + 30 * 0.000054
    assert workers.minimum.value == pytest.approx(hour)
    assert workers.maximum.value == pytest.approx(3 * hour)
    asked = {
        need.metric.name: part.amount
        for need in needs(plan)
        for part in need.parts
        if "pipeline payments" in part.who
    }
    assert asked == {"CPUS": 6, "CPUS_ALL_REGIONS": 6, "DISKS_TOTAL_GB": 90, "INSTANCES": 3}
    assert "dataflow.googleapis.com" in plan.project.services


def test_a_subnet_is_named_as_dataflow_takes_it() -> None:
    assert subnet_url("nodes", "us-central1") == "regions/us-central1/subnetworks/nodes"
    path = "projects/acme-net/regions/us-central1/subnetworks/nodes"
    assert subnet_url(path, "us-central1") == f"https://www.googleapis.com/compute/v1/{path}"


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ([(f"{_AT}/model", "other")], "pipelines.payments.model must be one of fraud, got"),
        ([(f"{_AT}/features", [])], "pipelines.payments.features must have an entry"),
        (
            [(f"{_AT}/features", ["hour", "hour"])],
            "pipelines.payments.features[1] must be listed once, got",
        ),
        ([(f"{_AT}/region", "us-east1")], "pipelines.payments.region must be one of us-central1"),
        ([(f"{_AT}/value", "window_sum")],
         "pipelines.payments.value must be a field of an event, got window_sum"),
        ([(f"{_AT}/workers/min", 4)], "pipelines.payments.workers.min must be at most max (3)"),
        (
            [(f"{_AT}/workers/machine_type", "g2-standard-4")],
            "pipelines.payments.workers.machine_type must be a machine type without accelerators",
        ),
        (
            [_TEAM],
            "pipelines.payments.key_secret is required when clients have teams",
        ),
        (
            [("pipelines/a-long-name-of-one", {"model": "fraud", "key": "a", "group": "b",
              "value": "c", "features": ["c"]})],
            "pipelines.a-long-name-of-one gives its service account a name that",
        ),
    ],
)  # fmt: skip
def test_what_a_pipeline_cannot_be_is_refused(edits: Any, message: str) -> None:
    with pytest.raises(StackError) as raised:
        parse(edited(*edits))
    assert message in str(raised.value).replace("'", "")
