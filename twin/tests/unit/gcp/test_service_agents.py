"""Service agents: no role for an agent that the project has not created."""

from typing import Any

import pytest

from twin.tests.unit.gcp.conftest import Cloud, Refused

MEMBER = "gcp:projects/iAMMember:IAMMember"
IDENTITY = "gcp:projects/serviceIdentity:ServiceIdentity"


def agent(domain: str, number: int = 314159265358) -> str:
    return f"service-{number}@{domain}.iam.gserviceaccount.com"


def grant(domain: str, number: int = 314159265358) -> dict[str, Any]:
    member = f"serviceAccount:{agent(domain, number)}"
    return {"member": member, "project": "acme", "role": "roles/editor"}


@pytest.mark.parametrize(
    ("service", "domain"),
    [("pubsub.googleapis.com", "gcp-sa-pubsub"), ("networkservices.googleapis.com", "gcp-sa-dep")],
)
def test_an_agent_gets_roles_once_it_is_made(cloud: Cloud, service: str, domain: str) -> None:
    cloud.create(IDENTITY, "other", {"service": "redis.googleapis.com", "project": "acme"})
    with pytest.raises(Refused, match=rf"Service account {agent(domain)} does not exist\."):
        cloud.create(MEMBER, "early", grant(domain))
    made = cloud.create(IDENTITY, "identity", {"service": service, "project": "acme"})
    assert made.outputs["member"].endswith(f"@{domain}.iam.gserviceaccount.com")
    cloud.create(MEMBER, "granted", grant(domain))


def test_a_new_agent_gets_no_role_until_iam_knows_it(cloud: Cloud, later: Any) -> None:
    made = cloud.create(IDENTITY, "a", {"service": "pubsub.googleapis.com", "project": "acme"})
    with pytest.raises(Refused, match=r"Service account \S+ does not exist\."):
        later(made, 1.19).create(MEMBER, "early", grant("gcp-sa-pubsub"))
    later(made, 1.21).create(MEMBER, "granted", grant("gcp-sa-pubsub"))


def test_an_agent_has_the_number_of_the_project_that_made_it(cloud: Cloud) -> None:
    cloud.create(IDENTITY, "a", {"service": "pubsub.googleapis.com", "project": "acme"})
    cloud.create(MEMBER, "first", grant("gcp-sa-pubsub"))
    with pytest.raises(Refused, match=r"service-5@gcp-sa-pubsub\S+ does not exist\."):
        cloud.create(MEMBER, "typo", grant("gcp-sa-pubsub", 5))
    cloud.create(IDENTITY, "b", {"service": "pubsub.googleapis.com", "project": "host"})
    cloud.create(MEMBER, "of host", grant("gcp-sa-pubsub", 5))


def test_a_workload_pool_has_the_number_of_its_project(cloud: Cloud) -> None:
    cloud.create(IDENTITY, "a", {"service": "pubsub.googleapis.com", "project": "acme"})
    cloud.create(MEMBER, "first", grant("gcp-sa-pubsub"))
    cloud.world.store.note("workload-pool acme.svc.id.goog", True)
    pool = "locations/global/workloadIdentityPools/acme.svc.id.goog"
    workload = {"project": "acme", "role": "roles/viewer"}
    typo = f"principal://iam.googleapis.com/projects/5/{pool}/subject/ns/a/sa/b"
    with pytest.raises(Refused, match=rf"Identity Pool does not exist \(projects/5/{pool}\)"):
        cloud.create(MEMBER, "typo", {**workload, "member": typo})
    right = typo.replace("/5/", "/314159265358/")
    cloud.create(MEMBER, "right", {**workload, "member": right})


def test_the_agent_of_cloud_logging_comes_with_a_sink(cloud: Cloud) -> None:
    with pytest.raises(Refused, match="does not exist"):
        cloud.create(MEMBER, "early", grant("gcp-sa-logging"))
    sink = {"name": "logs", "project": "acme", "destination": "storage.googleapis.com/acme-logs"}
    cloud.create("gcp:logging/projectSink:ProjectSink", "logs", sink)
    cloud.create(MEMBER, "granted", grant("gcp-sa-logging"))


def test_an_agent_that_exists_is_made_again_without_an_error(cloud: Cloud) -> None:
    inputs = {"service": "pubsub.googleapis.com", "project": "acme"}
    first = cloud.create(IDENTITY, "first", inputs)
    assert cloud.create(IDENTITY, "second", inputs).id == first.id
