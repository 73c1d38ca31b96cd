"""Service agents: no role for an agent that the project has not created."""

from typing import Any

import pytest

from twin.tests.unit.gcp.conftest import Cloud, Refused

MEMBER = "gcp:projects/iAMMember:IAMMember"
IDENTITY = "gcp:projects/serviceIdentity:ServiceIdentity"


def agent(domain: str) -> str:
    return f"service-314159265358@{domain}.iam.gserviceaccount.com"


def grant(domain: str) -> dict[str, Any]:
    member = f"serviceAccount:{agent(domain)}"
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
