"""`gke-inference up` of a stack that names resources which do not exist."""

import json
import re
import time
from datetime import datetime
from typing import Any

import pytest

from gke_inference.catalogue.versions import builds
from infra.plan import resolve
from infra.reading.load import parse, platform_of, read
from infra.stack import Dns, Front, ImageCache, Images, ResultsKind, Stream, StreamResults
from infra.stack.images import PullThrough, UpstreamCredentials
from scripts.operate import refusals
from scripts.operate.refusals import refuse_absence, refuse_late_requests, refuse_unbuilt
from scripts.shared.scenario_files import scenario_file
from scripts.terminal.console import CheckFailedError
from tests.shipped_stacks import EXAMPLES
from twin.host import paths as host_paths
from twin.host.paths import TwinPaths
from twin.providers.gcp.server import world_of
from twin.world.built_images import REPOSITORY as REPOSITORY_TYPE
from twin.world.built_images import push
from twin.world.capacity import Clock, GivenCertificate, StockLine, World, initial
from twin.world.future_reservations import REQUEST
from twin.world.scenario import load, names
from twin.world.store import Record, Store, new_record

CALENDAR = "calendar-mode/Pulumi.calendar-mode.yaml"
CERTIFICATE = "models-example-com"
SNAPSHOT = "projects/acme-images/global/snapshots/llama-3-3-70b-instruct"
IMAGE = "projects/acme-images/global/images/acme-engines"
REPOSITORY = (
    "projects/acme-inference-prod/locations/us-central1/connections/forge/repositories/platform"
)
RESERVATIONS = tuple(
    StockLine(
        zone=zone,
        accelerator=accelerator,
        provisioning="reservation",
        reservation=name,
        chips="unlimited",
    )
    for name, accelerator, zones in (
        ("v6e-prod", "tpu-v6e", ("us-central1-b", "europe-west4-a", "asia-northeast1-b")),
        ("v6e-8-prod", "tpu-v6e", ("us-central1-b", "europe-west4-a", "asia-northeast1-b")),
        ("h200-prod", "nvidia-h200-141gb", ("us-central1-b", "europe-west4-a")),
    )
    for zone in zones
)


def world(**more) -> World:
    """Return a world with what `prod` uses, except for its certificate and its zone."""
    given: dict[str, Any] = {
        "build_repositories": (REPOSITORY,),
        "images": (IMAGE,),
        "snapshots": (SNAPSHOT,),
        "stock": RESERVATIONS,
    }
    return World(**given | more)


@pytest.fixture
def paths(tmp_path):
    made = TwinPaths(tmp_path)
    made.create()
    return made


@pytest.fixture
def stack(monkeypatch):
    """Return what makes `prod`, with some other words of its gateway, the stack that is started."""

    def changed(**words):
        prod = read("prod")
        gateway = prod.gateway.model_copy(update=words)
        plan = resolve(prod.model_copy(update={"gateway": gateway}))
        monkeypatch.setattr(refusals, "plan_of", lambda _: plan)

    return changed


def refused(paths) -> str:
    with pytest.raises(CheckFailedError) as error:
        refuse_absence("prod", paths)
    return str(error.value)


def test_a_certificate_must_be_there_in_each_region_and_for_the_front(paths, stack):
    stack(issue_certificate=False, dns=None)
    world(certificates=(GivenCertificate(name=CERTIFICATE, region="us-*"),)).save(
        paths.capacity_file
    )
    message = refused(paths)
    assert (
        f"no ACTIVE certificate {CERTIFICATE} in europe-west4, asia-northeast1, global" in message
    )
    entry = f"certificates: [{{name: {CERTIFICATE}, hostname: models.example.com}}]"
    assert f"Add `{entry}` to {paths.capacity_file}" in message
    world(certificates=(GivenCertificate(name=CERTIFICATE),)).save(paths.capacity_file)
    refuse_absence("prod", paths)


def test_a_zone_must_be_there_and_a_certificate_that_is_issued_need_not(paths, stack):
    stack()
    world().save(paths.capacity_file)
    message = refused(paths)
    assert "no zone example-com of Cloud DNS" in message
    assert "certificate" not in message
    world(zones=("example-com",)).save(paths.capacity_file)
    refuse_absence("prod", paths)


def test_a_gateway_over_all_clusters_needs_a_certificate_for_all_regions(paths, stack):
    stack(issue_certificate=False, dns=None, front=Front.INTERNAL)
    regional = GivenCertificate(name=CERTIFICATE, region="us-*")
    world(certificates=(regional,)).save(paths.capacity_file)
    message = refused(paths)
    assert f"no ACTIVE certificate {CERTIFICATE} of scope ALL_REGIONS" in message
    assert "hostname: models.example.com, region: global}" in message
    wide = GivenCertificate(name=CERTIFICATE, region="global")
    world(certificates=(wide,)).save(paths.capacity_file)
    refuse_absence("prod", paths)


def test_both_zones_of_an_internal_hostname_must_be_there(paths, stack):
    dns = Dns(zone="inner", certificate_zone="outer")
    stack(dns=dns)
    world(zones=("inner",)).save(paths.capacity_file)
    assert "no zone outer of Cloud DNS" in refused(paths)
    world(zones=("inner", "outer")).save(paths.capacity_file)
    refuse_absence("prod", paths)


def test_a_stack_without_either_is_started(paths, stack):
    stack(certificate=None, issue_certificate=False, dns=None, hostname=None, front=None)
    world().save(paths.capacity_file)
    refuse_absence("prod", paths)


def test_a_scenario_brings_its_own_certificates(paths, stack):
    stack(issue_certificate=False, dns=None)
    world(certificates=load(scenario_file("region-loss")).start.certificates).save(
        paths.capacity_file
    )
    refuse_absence("prod", paths)
    with pytest.raises(CheckFailedError, match="no reservation v6e-prod") as error:
        refuse_absence("prod", paths, "region-loss")
    assert "certificate" not in str(error.value)


def test_a_file_that_lacks_what_a_new_twin_has_can_be_removed(paths):
    World().save(paths.capacity_file)
    with pytest.raises(CheckFailedError, match="no reservation v6e-local in us-c") as error:
        refuse_absence("local", paths)
    assert str(error.value).endswith("a new twin has them: remove that file to return to it")
    assert "remove that file" not in refused(paths)  # prod: a new twin does not have them either
    paths.capacity_file.unlink()
    refuse_absence("local", paths)


def test_prod_is_not_started_before_its_images_are_built(paths):
    with pytest.raises(CheckFailedError) as error:
        refuse_unbuilt("prod", paths)
    assert str(error.value).startswith("prod: images.digests must have body-router, callout, ")
    assert "`gke-inference images prepare --stack prod` is the first" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_stack_is_started_once_every_region_has_its_images(paths):
    tag = f"acme-inference-staging/engines/body-router:{builds()['body_router'].version}-abc"
    for region in ("us-central1", "us-east1"):
        parent = f"projects/acme-inference-staging/locations/{region}/repositories/engines"
        inputs = {"location": region, "repositoryId": "engines"}
        given = (parent, "engines", "acme-inference-staging", region, "ready", True, inputs, {})
        world_of(paths).store.add(Record(REPOSITORY_TYPE, *given, time.time()), [])
    push(paths, f"us-central1-docker.pkg.dev/{tag}", f"sha256:{'1' * 64}")
    with pytest.raises(CheckFailedError, match="must have body-router"):
        refuse_unbuilt("staging", paths)
    push(paths, f"us-east1-docker.pkg.dev/{tag}", f"sha256:{'1' * 64}")
    refuse_unbuilt("staging", paths)


def test_a_stack_without_a_repository_of_its_own_is_started(paths):
    refuse_unbuilt("local", paths)


@pytest.mark.parametrize("scenario", names())
def test_the_stack_local_can_be_started_after_every_scenario(paths, scenario):
    load(scenario_file(scenario)).start.save(paths.capacity_file)
    refuse_absence("local", paths)


def test_prod_needs_its_snapshot_disk_image_repository_and_reservations(paths, stack):
    stack(certificate=None, issue_certificate=False, dns=None, hostname=None, front=None)
    World().save(paths.capacity_file)
    message = refused(paths)
    assert f"no snapshot {SNAPSHOT} (models.llama-3.3-70b.disk.snapshot)" in message
    assert f"no disk image {IMAGE} (storage.image_cache)" in message
    assert f"no repository {REPOSITORY} (images.build.source.repository)" in message
    assert "no reservation v6e-prod in us-central1-b (capacity.interactive)" in message
    assert "no reservation h200-prod in europe-west4-a (capacity.heavy)" in message
    assert message.count("no reservation ") == len(RESERVATIONS)


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("build_repositories", f"no repository {REPOSITORY}"),
        ("images", f"no disk image {IMAGE}"),
        ("snapshots", f"no snapshot {SNAPSHOT}"),
    ],
)
def test_each_of_them_is_needed(paths, stack, key, says):
    stack(certificate=None, issue_certificate=False, dns=None, hostname=None, front=None)
    world(**{key: ()}).save(paths.capacity_file)
    assert refused(paths).startswith(f"prod: the twin's cloud has {says}")


def test_the_password_of_a_registry_is_needed(paths, monkeypatch):
    version = "projects/acme-inference-local/secrets/hub/versions/1"
    login = UpstreamCredentials(username="acme", secret=version)
    through = PullThrough(name="upstream", credentials={"docker.io": login})
    images = Images(repository="engines", pull_through=through)
    plan = resolve(read("local").model_copy(update={"images": images}))
    monkeypatch.setattr(refusals, "plan_of", lambda _: plan)
    says = f"no secret {version} (images.pull_through.credentials.docker.io)"
    assert says in refused(paths)
    given = initial().model_copy(update={"secret_versions": (version,)})
    given.save(paths.capacity_file)
    refuse_absence("local", paths)


def test_the_table_of_a_stream_must_be_there_and_take_answers(paths, monkeypatch):
    local = read("local")
    results = StreamResults(kind=ResultsKind.BIGQUERY, table="acme-data.answers.rows")
    stream = Stream(model=next(iter(local.models)), results=results)
    plan = resolve(local.model_copy(update={"streams": {"docs": stream}}))
    monkeypatch.setattr(refusals, "plan_of", lambda _: plan)
    message = refused(paths)
    says = "no table acme-data.answers.rows of BigQuery (streams.docs.results.table)"
    assert f"the twin's cloud has {says}. Write" in message
    (entry,) = re.findall(r"`(tables[^`]+)`", message)
    stock = initial().model_dump(mode="json")["stock"]
    paths.capacity_file.write_text(f"{entry}\nstock: {json.dumps(stock)}")
    refuse_absence("local", paths)
    paths.capacity_file.write_text(
        f"{entry.replace('name: model', 'name: engine')}\nstock: {json.dumps(stock)}"
    )
    says = "a table acme-data.answers.rows that has no column model (streams.docs.results.table)"
    assert f"the twin's cloud has {says}. Add" in refused(paths)


def test_the_entries_of_the_message_are_all_that_the_stack_needs(paths, stack):
    stack(certificate=None, issue_certificate=False, dns=None, hostname=None, front=None)
    World().save(paths.capacity_file)
    entries = re.findall(r"`([^`]+)`", refused(paths))
    paths.capacity_file.write_text("\n".join(entries))
    refuse_absence("prod", paths)


def test_without_a_twin_the_message_names_the_folder_to_make_and_all_entries_of_the_new_file(
    tmp_path, stack
):
    stack(certificate=None, issue_certificate=False, dns=None, hostname=None, front=None)
    paths = TwinPaths(tmp_path / "absent")
    message = refused(paths)
    folder = tmp_path / "absent"
    assert f"to a new file {folder}/capacity.yaml after `mkdir -p {folder}`" in message
    entries = re.findall(r"`([a-z_]+: [^`]+)`", message)
    folder.mkdir()
    paths.capacity_file.write_text("\n".join(entries))
    refuse_absence("prod", paths)


def test_a_new_file_has_the_reservation_of_a_new_twin_that_the_stack_uses(paths, monkeypatch):
    capacity = read("local").capacity
    (name, ladder) = next(iter(capacity.items()))
    rungs = (*ladder.rungs, ladder.rungs[0].model_copy(update={"reservation": "v6e-other"}))
    changed = {**capacity, name: ladder.model_copy(update={"rungs": rungs})}
    plan = resolve(read("local").model_copy(update={"capacity": changed}))
    monkeypatch.setattr(refusals, "plan_of", lambda _: plan)
    message = refused(paths)
    assert "the twin's cloud has no reservation v6e-other in us-central1-b" in message
    assert "v6e-local" not in message.partition(". Write")[0]
    (entry,) = re.findall(r"`(stock: [^`]+)`", message)
    assert "reservation: v6e-local" in entry
    assert "reservation: v6e-other" in entry
    paths.capacity_file.write_text(entry)
    refuse_absence("local", paths)


def test_only_scenarios_that_have_everything_are_offered(paths, stack, monkeypatch):
    stack(certificate=None, issue_certificate=False, dns=None, hostname=None, front=None)
    assert "SCENARIO" not in refused(paths)  # none has the snapshot of prod
    monkeypatch.setattr(refusals, "plan_of", lambda _: resolve(read("local")))
    World().save(paths.capacity_file)
    with pytest.raises(CheckFailedError) as error:
        refuse_absence("local", paths)
    assert "run `make up STACK=local SCENARIO=burst` (or " in str(error.value)


def test_what_a_scenario_lacks_goes_into_a_copy_of_it_because_it_replaces_the_file(paths, stack):
    stack()
    with pytest.raises(CheckFailedError) as error:
        refuse_absence("prod", paths, "region-loss")
    file = scenario_file("region-loss")
    assert f"under `start` of a copy of {file}, and use the path of the copy" in str(error.value)
    assert str(paths.capacity_file) not in str(error.value)


def test_the_disk_image_that_up_makes_need_not_be_there(paths, monkeypatch):
    prod = read("prod")
    cache = ImageCache(name="engines", archive="gs://acme-images/engines.tar.gz")
    storage = prod.storage.model_copy(update={"image_cache": cache})
    gateway = prod.gateway.model_copy(
        update={"certificate": None, "issue_certificate": False, "dns": None, "front": None}
    )
    plan = resolve(prod.model_copy(update={"gateway": gateway, "storage": storage}))
    monkeypatch.setattr(refusals, "plan_of", lambda _: plan)
    world(images=()).save(paths.capacity_file)
    refuse_absence("prod", paths)


def test_a_service_account_must_be_there_that_may_call_the_service(paths, monkeypatch):
    folder = host_paths.REPOSITORY / "docs" / "examples" / "personalized-images"
    plan = resolve(read("personalized-images", folder))
    monkeypatch.setattr(refusals, "plan_of", lambda _: plan)
    email = "app@acme-inference-images.iam.gserviceaccount.com"
    message = refused(paths)
    assert f"no service account {email} (personal_images.callers[0])" in message
    snapshot = "projects/acme-inference-images/global/snapshots/flux-dev"
    assert f"no snapshot {snapshot}" in message
    entries = f"`service_accounts: [{email}]`, `snapshots: [{snapshot}]`"
    assert f"{entries} to a new file {paths.capacity_file}" in message
    World(service_accounts=(email,), snapshots=(snapshot,)).save(paths.capacity_file)
    refuse_absence("personalized-images", paths)


def test_a_new_twin_has_the_reservation_of_the_stack_local_only(paths):
    refuse_absence("local", paths)
    refuse_absence("local", paths, "tpu-stockout")
    World().save(paths.capacity_file)
    with pytest.raises(CheckFailedError, match="no reservation v6e-local in us-central1-b"):
        refuse_absence("local", paths)


@pytest.fixture
def launch(monkeypatch):
    """Make the example in calendar mode the stack that is started."""
    plan = resolve(parse(json.dumps(platform_of(EXAMPLES / CALENDAR))))
    monkeypatch.setattr(refusals, "plan_of", lambda _: plan)


def it_is(paths, date: str) -> None:
    World(clock=Clock(date=datetime.fromisoformat(date))).save(paths.capacity_file)


def test_a_reservation_that_the_stack_requests_need_not_be_there(paths, launch):
    it_is(paths, "2027-01-08T08:00:00Z")
    refuse_absence("calendar-mode", paths)
    refuse_late_requests("calendar-mode", paths)


def test_a_reservation_whose_start_is_past_is_not_requested(paths, launch):
    it_is(paths, "2027-01-12T08:00:00Z")
    with pytest.raises(CheckFailedError) as error:
        refuse_late_requests("calendar-mode", paths)
    assert str(error.value) == (
        "calendar-mode: reservation launch-week in us-east5-b cannot be requested on 2027-01-12 "
        "08:00 (date of the twin's cloud): the start 2027-01-11T08:00:00Z is in the past. Choose a "
        f"later reservation_period, or set `clock: {{date: ...}}` in {paths.capacity_file}"
    )
    path = "projects/acme-inference-launch/zones/us-east5-b/futureReservations/launch-week"
    record = new_record(REQUEST, path, "launch-week", "acme-inference-launch", "", {}, {})
    Store(paths.cloud_db).add(record, [])
    refuse_late_requests("calendar-mode", paths)  # it was requested in time
