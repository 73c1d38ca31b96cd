"""Certificates by region, and whether the host name leads to the gateway."""

from dataclasses import replace

import pytest

from infra.plan import resolve
from infra.stack import Chips, Clients, ClientTeam, Dns, Exposure, Front, People, Team
from scripts.prerequisites.endpoint import certificates, records, sign_in
from scripts.prerequisites.finding import State
from tests.unit.bootstrap.fake_google import refused
from tests.unit.prerequisites.ready_project import COMPUTE

HERE = "models-example-com in us-central1"


def certificate_url(google) -> str:
    where = "locations/us-central1/certificates/models-example-com"
    return f"certificatemanager.googleapis.com/v1/projects/{google.id}/{where}"


def first(project):
    return next(iter(certificates(project)))


def with_gateway(project, **changes):
    gateway = project.plan.platform.gateway.model_copy(update=changes)
    platform = project.plan.platform.model_copy(update={"gateway": gateway})
    return replace(project, plan=resolve(platform))


def reserve(google, *regions: str) -> None:
    for number, region in enumerate(regions, 1):
        where = f"projects/{google.id}/regions/{region}/addresses/acme-prod-gateway"
        google.resources[f"{COMPUTE}/{where}"] = {"address": f"203.0.113.{number}"}


def test_a_certificate_must_be_active_in_every_region(project):
    found = list(certificates(project))
    assert [each.name.partition(" in ")[2] for each in found] == [
        "us-central1",
        "europe-west4",
        "asia-northeast1",
    ]
    assert {each.says for each in found} == {"ACTIVE for models.example.com"}


def test_a_certificate_that_is_not_there_has_the_command_that_makes_it(google, project):
    del google.resources[certificate_url(google)]
    found = first(project)
    assert (found.name, found.state) == (HERE, State.MISSING)
    assert found.command.startswith(
        "gcloud certificate-manager certificates create models-example-com"
        " --project=acme-inference-prod --location=us-central1 --domains=models.example.com"
    )


def test_a_certificate_that_the_stack_issues_comes_with_up(google, project):
    del google.resources[certificate_url(google)]
    assert first(with_gateway(project, issue_certificate=True)).state is State.LATER


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {
                "managed": {
                    "state": "PROVISIONING",
                    "authorizationAttemptInfo": [{"failureReason": "CONFIG"}],
                }
            },
            "is PROVISIONING; must be ACTIVE (CONFIG)",
        ),
        (
            {
                "managed": {
                    "state": "FAILED",
                    "provisioningIssue": {"reason": "RATE_LIMITED", "details": "wait"},
                }
            },
            "is FAILED; must be ACTIVE (RATE_LIMITED, wait)",
        ),
        ({"sanDnsnames": ["other.example.com"]}, "is for other.example.com; must be for models"),
        ({"sanDnsnames": ["*.com"]}, "is for *.com; must be for models.example.com"),
        ({"expireTime": "2020-01-01T00:00:00Z"}, "expired at 2020-01-01T00:00:00Z"),
    ],
)
def test_a_certificate_that_would_not_serve_is_missing(google, project, change, says):
    google.resources[certificate_url(google)] |= change
    found = first(project)
    assert found.state is State.MISSING
    assert found.says.startswith(says)


def test_an_uploaded_certificate_of_all_hosts_of_the_domain_serves(google, project):
    google.resources[certificate_url(google)] = {
        "selfManaged": {},
        "sanDnsnames": ["*.example.com"],
        "expireTime": "2099-01-01T00:00:00Z",
    }
    assert first(project).says == "uploaded, for models.example.com"


@pytest.mark.parametrize(
    ("scope", "state"), [("ALL_REGIONS", State.MET), ("DEFAULT", State.MISSING)]
)
def test_a_gateway_over_all_clusters_needs_one_certificate_for_all_regions(
    google, project, scope, state
):
    fleet = with_gateway(project, front=Front.INTERNAL, exposure=Exposure.INTERNAL)
    (found,) = certificates(fleet)
    assert (found.name, found.state) == ("models-example-com in global", State.MISSING)
    assert found.command.endswith(" --scope=all-regions")
    url = certificate_url(google)
    google.resources[url.replace("us-central1", "global")] = {
        **google.resources[url],
        "scope": scope,
    }
    assert next(iter(certificates(fleet))).state is state


def test_a_certificate_that_nobody_shows_cannot_be_seen(google, project):
    google.refusals[certificate_url(google)] = refused(403, "denied")
    assert first(project).state is State.UNSEEN


def test_a_stack_without_a_certificate_needs_none(project):
    bare = with_gateway(project, hostname=None, certificate=None)
    assert [*certificates(bare), *records(bare)] == []


def test_a_record_waits_for_the_address_that_up_reserves(project):
    (found,) = records(project)
    assert found.state is State.LATER


def test_a_record_must_lead_to_the_address_of_every_region(google, project):
    reserve(google, *google.plan.regions)
    every = frozenset({"203.0.113.1", "203.0.113.2", "203.0.113.3"})
    (found,) = records(replace(project, resolve=lambda _: every))
    assert found.state is State.MET
    (found,) = records(replace(project, resolve=lambda _: frozenset({"203.0.113.1"})))
    assert found.state is State.MISSING
    assert found.says == "leads to 203.0.113.1; must lead to 203.0.113.2, 203.0.113.3"
    assert "--rrdatas=203.0.113.1,203.0.113.2,203.0.113.3" in found.command


ZONE = {"dnsName": "example.com.", "visibility": "public"}


@pytest.mark.parametrize(
    ("zone", "state", "says"),
    [
        (ZONE, State.MET, "is for example.com; `up` creates the records"),
        (None, State.MISSING, "there is none"),
        ({**ZONE, "dnsName": "example.org."}, State.MISSING, "is for example.org; must be"),
        ({**ZONE, "dnsName": "ample.com."}, State.MISSING, "is for ample.com; must be"),
        ({**ZONE, "visibility": "private"}, State.MISSING, "is private; must be public"),
    ],
)
def test_the_zone_of_the_records_must_be_there_and_hold_them(google, project, zone, state, says):
    url = "dns.googleapis.com/dns/v1/projects/acme-dns/managedZones/example"
    if zone is not None:
        google.resources[url] = zone
    dns = Dns(zone="example", project="acme-dns")
    (found,) = records(with_gateway(project, dns=dns))
    assert (found.subject, found.name) == ("DNS zone", "example of acme-dns")
    assert found.state is state
    assert found.says.startswith(says)


def test_an_internal_front_has_its_addresses_in_a_private_zone_and_its_proof_in_a_public_one(
    google, project
):
    dns = Dns(zone="inner", certificate_zone="outer")
    fleet = with_gateway(
        project,
        front=Front.INTERNAL,
        exposure=Exposure.INTERNAL,
        issue_certificate=True,
        dns=dns,
    )
    inner, outer = records(fleet)
    assert inner.command.endswith(" --visibility=private --networks=NETWORK")
    assert outer.command.endswith(" --description=inference")
    zones = f"dns.googleapis.com/dns/v1/projects/{google.id}/managedZones"
    google.resources[f"{zones}/inner"] = ZONE
    google.resources[f"{zones}/outer"] = {**ZONE, "visibility": "private"}
    assert [each.says for each in records(fleet)] == [
        "is public; must be private, as Cloud DNS checks internal load balancers for private zones"
        " only",
        "is private; must be public, as Google's certificate authority looks its record up",
    ]
    google.resources[f"{zones}/inner"] = {**ZONE, "visibility": "private"}
    google.resources[f"{zones}/outer"] = ZONE
    assert {each.state for each in records(fleet)} == {State.MET}


def test_the_zone_of_a_certificate_can_be_in_another_project(google, project):
    dns = Dns(
        zone="same", project="acme-dns", certificate_zone="same", certificate_project="acme-web"
    )
    fleet = with_gateway(
        project,
        front=Front.INTERNAL,
        exposure=Exposure.INTERNAL,
        issue_certificate=True,
        dns=dns,
    )
    zones = "dns.googleapis.com/dns/v1/projects/{}/managedZones/same"
    google.resources[zones.format("acme-dns")] = {**ZONE, "visibility": "private"}
    google.resources[zones.format("acme-web")] = ZONE
    found = {each.name: each.state for each in records(fleet)}
    assert found == {"same of acme-dns": State.MET, "same of acme-web": State.MET}


def test_a_zone_that_proves_a_certificate_must_be_public(google, project):
    internal = with_gateway(
        project, exposure=Exposure.INTERNAL, issue_certificate=True, dns=Dns(zone="inner")
    )
    url = f"dns.googleapis.com/dns/v1/projects/{google.id}/managedZones/inner"
    google.resources[url] = {**ZONE, "visibility": "private"}
    (found,) = records(internal)
    assert (found.state, found.says) == (
        State.MISSING,
        "is private; must be public, as Google's certificate authority looks its record up, or set"
        " gateway.dns.certificate_zone",
    )
    own = with_gateway(internal, issue_certificate=False)
    assert [each.state for each in records(own)] == [State.MET]


def with_people(project, backend_service=None, **changes):
    people = People(
        backend_service=backend_service,
        hostname="chat.example.net",
        members=("group:ml@example.com",),
        team="a",
    )
    clients = Clients(teams={"a": ClientTeam()}, people=people)
    found = with_gateway(project, front=Front.GLOBAL, **changes)
    platform = found.plan.platform.model_copy(update={"clients": clients})
    return replace(found, plan=resolve(platform))


def test_only_the_certificate_of_the_front_must_serve_the_hostname_of_people(google, project):
    url = certificate_url(google)
    google.resources[url.replace("us-central1", "global")] = google.resources[url]
    *regional, front = certificates(with_people(project))
    assert {each.says for each in regional} == {"ACTIVE for models.example.com"}
    assert (front.name, front.state) == ("models-example-com in global", State.MISSING)
    assert front.says == "is for models.example.com; must be for chat.example.net"
    del google.resources[url.replace("us-central1", "global")]
    *_, front = certificates(with_people(project))
    assert " --domains=models.example.com,chat.example.net " in front.command


def test_the_hostname_of_people_must_be_in_the_zone_or_lead_to_the_front(google, project):
    google.resources[f"dns.googleapis.com/dns/v1/projects/{google.id}/managedZones/web"] = ZONE
    (zone,) = records(with_people(project, dns=Dns(zone="web")))
    assert (zone.state, zone.says) == (
        State.MISSING,
        "is for example.com; must be for a domain of chat.example.net",
    )
    where = f"projects/{google.id}/global/addresses/acme-prod-front"
    google.resources[f"{COMPUTE}/{where}"] = {"address": "203.0.113.9"}
    resolved = {"models.example.com": frozenset({"203.0.113.9"}), "chat.example.net": frozenset()}
    found = {
        each.name: each.state
        for each in records(replace(with_people(project), resolve=resolved.__getitem__))
    }
    assert found == {"models.example.com": State.MET, "chat.example.net": State.MISSING}


def test_the_certificate_and_the_records_serve_the_hostnames_of_teams(project):
    team = Team(chips=Chips(gpu=8), hostname="search.example.net")
    platform = project.plan.platform.model_copy(update={"teams": {"search": team}})
    found = replace(project, plan=resolve(platform))
    assert first(found).says == "is for models.example.com; must be for search.example.net"
    assert [each.name for each in records(found)] == ["models.example.com", "search.example.net"]


@pytest.mark.parametrize(
    ("answer", "given", "state", "says"),
    [
        (None, None, State.LATER, "`up` creates it; then set clients.people.backend_service"),
        (
            {"id": "1234567890123456789"},
            None,
            State.MISSING,
            "clients.people.backend_service: must be '1234567890123456789', got none",
        ),
        (
            {"id": "1234567890123456789"},
            "12",
            State.MISSING,
            "clients.people.backend_service: must",
        ),
        ({"id": "1234567890123456789"}, "1234567890123456789", State.MET, "the stack has its ID"),
        ({}, "12", State.UNSEEN, "the response has no ID"),
    ],
)
def test_people_sign_in_to_the_backend_service_that_the_stack_names(
    google, project, answer, given, state, says
):
    assert list(sign_in(project)) == []
    if answer is not None:
        url = f"{COMPUTE}/projects/{google.id}/global/backendServices/acme-prod-front-people"
        google.resources[url] = answer
    (found,) = sign_in(with_people(project, backend_service=given))
    assert (found.name, found.state) == ("acme-prod-front-people", state)
    assert found.says.startswith(says)
