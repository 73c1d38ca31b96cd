"""Snapshots, disk images, container images, the build connection and weights."""

import json
from dataclasses import replace

import pytest

from gke_inference.catalogue.versions import builds
from infra.plan import resolve
from infra.stack import ImageCache
from infra.stack.images import ImageBuilds, PullThrough, UpstreamCredentials
from scripts.prerequisites import images as prerequisite_images
from scripts.prerequisites.disks import disks
from scripts.prerequisites.finding import State
from scripts.prerequisites.images import connection, container_images
from scripts.prerequisites.upstreams import upstream_credentials
from scripts.prerequisites.weights import adapters, weights
from tests.unit.bootstrap.fake_google import refused
from tests.unit.prerequisites.ready_project import COMPUTE, FILES
from workloads.engine.weights_manifest import Current, Manifest

SNAPSHOT = "projects/acme-images/global/snapshots/llama-3-3-70b-instruct"
IMAGE = "projects/acme-images/global/images/acme-engines"
BUILD = "cloudbuild.googleapis.com/v2"
REPOSITORIES = "artifactregistry.googleapis.com/v1/projects/acme-inference-prod"
TRIGGER = (
    "cloudbuild.googleapis.com/v1/projects/acme-inference-prod/locations/us-central1/triggers/"
    "gke-inference-callout"
)
BUCKET = "acme-prod-models-us-central1"
PUSH = "gke-inference models push --stack prod --on cloud --model"
LLAMA = "llama-3.1-8b in us-central1"


def of(found, name: str):
    if name.startswith("projects/"):
        name = f"{name.rpartition('/')[2]} of {name.split('/')[1]}"
    return next(each for each in found if each.name == name)  # and asks for no more


def test_a_snapshot_and_an_image_that_are_ready_and_usable_are_met(project):
    snapshot, image = disks(project)
    assert (snapshot.state, snapshot.says) == (State.MET, "READY, 150 GiB; llama-3.3-70b")
    assert image.state is State.MET
    assert "GKE's service agent must have roles/compute.imageUser" in image.says


@pytest.mark.parametrize("path", [SNAPSHOT, IMAGE])
def test_a_source_of_disks_that_is_not_there_has_its_command(google, project, path):
    del google.resources[f"{COMPUTE}/{path}"]
    found = of(disks(project), path)
    assert found.state is State.MISSING
    kind, name = path.split("/")[3:]
    assert found.command.startswith(f"gcloud compute {kind} create {name} --project=acme-images")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"status": "UPLOADING"}, "is UPLOADING; must be READY"),
        ({"diskSizeGb": "500"}, "is for a disk of 500 GiB; must be at most 200"),
    ],
)
def test_a_snapshot_that_makes_no_disk_is_missing(google, project, change, says):
    google.resources[f"{COMPUTE}/{SNAPSHOT}"] |= change
    found = of(disks(project), SNAPSHOT)
    assert found.state is State.MISSING
    assert found.says.startswith(says)


def test_a_snapshot_that_is_seen_and_may_not_be_used_is_missing(google, project):
    google.denied_permissions.add("compute.snapshots.useReadOnly")
    found = of(disks(project), SNAPSHOT)
    assert found.state is State.MISSING
    assert "add-iam-policy-binding llama-3-3-70b-instruct --project=acme-images" in found.command


def test_a_snapshot_that_nobody_shows_cannot_be_seen(google, project):
    google.refusals[f"{COMPUTE}/{SNAPSHOT}"] = refused(403, "denied")
    assert of(disks(project), SNAPSHOT).state is State.UNSEEN


@pytest.mark.parametrize(("has", "state"), [(True, State.MET), (False, State.MISSING)])
def test_an_image_that_the_stack_makes_needs_its_archive(google, project, has, state):
    if has:
        google.objects["acme-builds"] = {"images/engines.tar.gz": "{}"}
    archive = "gs://acme-builds/images/engines.tar.gz"
    cache = ImageCache(name="acme-engines", archive=archive)
    storage = project.plan.platform.storage.model_copy(update={"image_cache": cache})
    platform = project.plan.platform.model_copy(update={"storage": storage})
    changed = replace(project, plan=resolve(platform))
    assert of(disks(changed), archive).state is state


def test_every_image_that_a_registry_has_is_met(project):
    found = list(container_images(project))
    assert {each.state for each in found} == {State.MET}
    assert any("vllm-openai" in each.name for each in found)


@pytest.mark.parametrize(
    ("error", "state"),
    [
        ("MANIFEST_UNKNOWN: manifest unknown", State.MISSING),
        ("unexpected status code 404 Not Found", State.MISSING),
        ("UNAUTHORIZED: authentication required", State.UNSEEN),
        ("dial tcp: lookup registry: no such host", State.UNSEEN),
    ],
)
def test_only_an_image_that_a_registry_denies_having_is_missing(project, error, state):
    project.registry.errors["docker.io/vllm/vllm-openai"] = error
    (found,) = [each for each in container_images(project) if each.state is not State.MET]
    assert (found.state, found.command) == (state, "")
    assert found.name == "vllm-openai:v0.32.0 from docker.io"


ROUTER = {"body-router": f"sha256:{'1' * 64}"}


def without_digests(project, **more):
    """Return the project of a stack whose callout has no digest, or other words for its images."""
    images = project.plan.platform.images.model_copy(update={"digests": ROUTER, **more})
    platform = project.plan.platform.model_copy(update={"images": images})
    return replace(project, plan=resolve(platform))


def callout_of(project):
    missing = [each for each in container_images(project) if each.state is not State.MET]
    (found,) = [each for each in missing if not each.name.startswith("body-router:")]
    assert found.name == "callout:v0.1.0 from gke-inference.invalid"
    return found


@pytest.fixture
def bare_base(monkeypatch):
    """Take the digest of the base of our Go programs away."""
    known = builds()
    base = replace(known["callout"].base, digest="")
    bare = {**known, "callout": replace(known["callout"], base=base)}
    monkeypatch.setattr(prerequisite_images, "builds", lambda: bare)


def fill(google, project):
    """Create what the first step creates: a repository in each region, and the trigger."""
    for region in project.plan.platform.regions:
        google.resources[f"{REPOSITORIES}/locations/{region}/repositories/engines"] = {}
    google.resources[TRIGGER] = {}


def test_the_callout_is_not_built_while_its_base_has_no_digest(project, bare_base):
    found = callout_of(without_digests(project))
    assert (found.state, found.command) == (State.MISSING, "gke-inference images pin")
    assert found.says == "nothing builds it, because bases.go has no digest"


@pytest.mark.parametrize("absent", ["repository", "trigger"])
def test_the_callout_comes_later_while_the_first_step_is_not_done(google, project, absent):
    changed = without_digests(project)
    fill(google, changed)
    url = TRIGGER
    if absent == "repository":
        url = f"{REPOSITORIES}/locations/asia-northeast1/repositories/engines"
    del google.resources[url]
    found = callout_of(changed)
    assert (found.state, found.is_problem) == (State.LATER, False)
    assert found.command == "gke-inference images prepare --stack prod --on cloud"
    assert found.says == f"build it once {'/'.join(url.split('/')[-2:])} exists"


def test_the_callout_comes_later_while_its_apis_are_off(google, project):
    api = "artifactregistry.googleapis.com"
    google.refusals[REPOSITORIES] = refused(403, "has not been used", "SERVICE_DISABLED")
    found = callout_of(without_digests(project))
    assert (found.state, found.is_problem) == (State.LATER, False)
    assert found.command == "gke-inference images prepare --stack prod --on cloud"
    assert found.says == f"build it once {api} is on and repositories/engines exists"


def test_the_callout_is_in_no_public_registry_and_has_to_be_built(google, project):
    changed = without_digests(project)
    fill(google, changed)
    found = callout_of(changed)
    assert (found.state, found.is_problem) == (State.MISSING, True)
    assert found.command == "gke-inference images prepare --stack prod --on cloud"


def test_without_triggers_the_repository_is_enough_to_build(google, project):
    changed = without_digests(project, build=None)
    fill(google, changed)
    del google.resources[TRIGGER]
    assert callout_of(changed).state is State.MISSING


def test_without_a_connected_repository_no_trigger_and_no_connection_is_wanted(google, project):
    changed = without_digests(project, build=ImageBuilds())
    fill(google, changed)
    del google.resources[TRIGGER]
    assert callout_of(changed).state is State.MISSING
    assert list(connection(changed)) == []


def test_the_twin_runs_the_callout_that_it_built(google, project):
    changed = without_digests(project)
    fill(google, changed)
    built = replace(changed, has_built=lambda image: "callout" in image)
    (found,) = [each for each in container_images(built) if each.name.startswith("callout:")]
    assert found.state is State.MET
    assert (
        found.says
        == "in the twin's repositories; in Google Cloud, `up` needs its digest in the stack"
    )


def test_without_a_repository_the_callout_can_be_nowhere(project):
    platform = project.plan.platform.model_copy(update={"images": None})
    found = callout_of(replace(project, plan=resolve(platform)))
    assert (found.state, found.command) == (State.MISSING, "")
    assert found.says == (
        "only this repository's builds create it; add"
        " `images: {repository: engines, build: {}}` to the stack"
    )


def test_an_image_whose_repository_is_not_shown_cannot_be_seen(google, project):
    google.refusals[f"{REPOSITORIES}/locations/us-central1"] = refused(403, "denied")
    assert callout_of(without_digests(project)).state is State.UNSEEN


@pytest.mark.parametrize(
    ("name", "entry", "action"),
    [("epp", "endpoint_picker", "mirror"), ("vllm-gpu", "vllm_gpu", "build")],
)
def test_an_image_that_the_own_repository_lacks_is_mirrored_or_built(project, name, entry, action):
    images = project.plan.platform.images.model_copy(
        update={"digests": ROUTER | {"callout": f"sha256:{'1' * 64}", name: f"sha256:{'2' * 64}"}}
    )
    platform = project.plan.platform.model_copy(update={"images": images})
    changed = replace(project, plan=resolve(platform))
    changed.registry.errors["us-central1-docker.pkg.dev"] = "NAME_UNKNOWN: no such repository"
    missing = [each for each in container_images(changed) if each.state is not State.MET]
    (found,) = [each for each in missing if each.name.startswith(f"{name}@")]
    assert found.name == f"{name}@sha256:222222222222 from us-central1-docker.pkg.dev"
    assert found.command == f"gke-inference images {action} --stack prod --only {entry}"


def test_a_connection_and_its_repository_are_met(project):
    assert [(each.subject, each.state) for each in connection(project)] == [
        ("build connection", State.MET),
        ("build repository", State.MET),
    ]


def test_a_connection_that_is_not_there_has_its_commands(google, project):
    for url in [each for each in google.resources if each.startswith(BUILD)]:
        del google.resources[url]
    one, other = connection(project)
    assert (one.state, other.state) == (State.MISSING, State.MISSING)
    assert one.command == (
        "gcloud builds connections create github forge --project=acme-inference-prod"
        " --region=us-central1"
    )
    assert "repositories create platform" in other.command


@pytest.mark.parametrize(
    ("change", "says", "command"),
    [
        (
            {"installationState": {"stage": "PENDING_USER_OAUTH", "actionUri": "https://a/?b"}},
            "is PENDING_USER_OAUTH; must be COMPLETE",
            "xdg-open 'https://a/?b'",
        ),
        ({"disabled": True}, "is disabled", ""),
    ],
)
def test_a_connection_that_starts_no_build_is_missing(google, project, change, says, command):
    (url,) = [each for each in google.resources if each.endswith("/connections/forge")]
    google.resources[url] |= change
    found = next(iter(connection(project)))
    assert (found.state, found.says, found.command) == (State.MISSING, says, command)


def test_weights_with_all_files_of_their_manifest_are_met(project):
    found = of(weights(project), LLAMA)
    assert (found.state, found.says) == (State.MET, "version v1, 2 files, 16.0 GB")


def test_weights_on_a_disk_are_not_looked_for_in_a_bucket(project):
    assert not [each for each in weights(project) if "llama-3.3-70b" in each.name]


def test_weights_wait_for_the_bucket_that_up_makes(google, project):
    del google.objects[BUCKET]
    found = of(weights(project), LLAMA)
    assert found.state is State.LATER
    assert (
        found.command
        == "gke-inference models push --stack prod --on cloud --model llama-3.1-8b FOLDER"
    )
    assert next(iter(adapters(project))).state is State.LATER


def manifest(**changes) -> str:
    body = {
        "format": 1,
        "model": "llama-3.1-8b",
        "version": "v1",
        "created": "2026-11-22T00:00:00Z",
        "files": [{"name": "a", "size": 1, "crc32c": "AAECAw==", "sha256": "a" * 64}],
    }
    return json.dumps({**body, **changes})


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("_CURRENT.json", None, f"there is no llama-3.1-8b/_CURRENT.json in {BUCKET}"),
        ("_CURRENT.json", '{"format": 2}', "llama-3.1-8b/_CURRENT.json: format: must be 1"),
        ("v1/_MANIFEST.json", None, f"there is no llama-3.1-8b/v1/_MANIFEST.json in {BUCKET}"),
        ("v1/_MANIFEST.json", manifest(files=[]), "llama-3.1-8b/v1/_MANIFEST.json: files: must"),
        ("v1/_MANIFEST.json", manifest(), "version v1: a must be in the bucket as the manifest"),
        ("v1/model.safetensors", 15, "version v1: model.safetensors must be in the bucket"),
        ("v1/model.safetensors", None, "version v1: model.safetensors must be in the bucket"),
    ],
)
def test_weights_that_no_server_may_read_are_missing(google, project, name, content, says):
    if content is None:
        del google.objects[BUCKET][f"llama-3.1-8b/{name}"]
    else:
        google.objects[BUCKET][f"llama-3.1-8b/{name}"] = content
    found = of(weights(project), LLAMA)
    assert found.state is State.MISSING
    assert found.says.startswith(says)
    assert (
        found.command
        == "gke-inference models push --stack prod --on cloud --model llama-3.1-8b FOLDER"
    )


def test_a_bucket_that_nobody_shows_cannot_be_seen(google, project):
    google.refusals[f"storage.googleapis.com/storage/v1/b/{BUCKET}"] = refused(403, "denied")
    assert of(weights(project), LLAMA).state is State.UNSEEN


def test_an_adapter_must_be_beside_the_weights(google, project):
    del google.objects[BUCKET]["llama-3.1-8b/adapters/sql/adapter_config.json"]
    missing = [each for each in adapters(project) if each.state is State.MISSING]
    assert [each.name for each in missing] == ["sql of llama-3.1-8b in us-central1"]
    assert missing[0].command == (f"{PUSH} llama-3.1-8b/adapters/sql FOLDER")


def test_an_adapter_must_be_whole_in_its_current_version(google, project):
    has, sql = google.objects[BUCKET], "llama-3.1-8b/adapters/sql"
    has[f"{sql}/_CURRENT.json"] = Current("v1").dump()
    has[f"{sql}/v1/_MANIFEST.json"] = Manifest("sql", "v1", "2026-11-22T00:00:00Z", FILES).dump()
    has |= {f"{sql}/v1/{file.name}": file.size for file in FILES}
    found = of(adapters(project), "sql of llama-3.1-8b in us-central1")
    assert (found.state, found.says) == (State.MET, "version v1, 2 files, 16.0 GB")
    del has[f"{sql}/v1/{FILES[0].name}"]
    found = of(adapters(project), "sql of llama-3.1-8b in us-central1")
    assert (found.state, found.says[:11]) == (State.MISSING, "version v1:")


PASSWORD = "projects/acme-inference-prod/secrets/hub/versions/2"


@pytest.fixture
def cached(project):
    """Return prod with a cache of third-party images, and a password for Docker Hub."""
    login = UpstreamCredentials(username="acme", secret=PASSWORD)
    images = project.plan.platform.images.model_copy(
        update={"pull_through": PullThrough(name="upstream", credentials={"docker.io": login})}
    )
    platform = project.plan.platform.model_copy(update={"images": images})
    return replace(project, plan=resolve(platform))


def test_the_password_of_a_registry_must_be_enabled(google, cached):
    url = f"secretmanager.googleapis.com/v1/{PASSWORD}"
    google.services.add("secretmanager.googleapis.com")
    (absent,) = upstream_credentials(cached)
    assert (absent.name, absent.state) == ("hub version 2 of acme-inference-prod", State.MISSING)
    assert absent.command.startswith("gcloud secrets create hub --project=acme-inference-prod ")
    secret = url.partition("/versions/")[0]
    google.resources[secret] = {"name": PASSWORD.partition("/versions/")[0]}
    (unfilled,) = upstream_credentials(cached)
    add = "gcloud secrets versions add hub --project=acme-inference-prod --data-file=FILE"
    assert unfilled.command == add
    google.resources[url] = {"name": PASSWORD, "state": "DESTROYED"}
    (destroyed,) = upstream_credentials(cached)
    assert destroyed.command == add
    assert destroyed.says.endswith("change images.pull_through.credentials.docker.io.secret")
    google.resources[url] = {"name": PASSWORD, "state": "DISABLED"}
    (disabled,) = upstream_credentials(cached)
    assert disabled.command == (
        "gcloud secrets versions enable 2 --secret=hub --project=acme-inference-prod"
    )
    assert (disabled.state, disabled.says) == (State.MISSING, "is DISABLED; must be ENABLED")
    google.resources[url] = {"name": PASSWORD, "state": "ENABLED"}
    (met,) = upstream_credentials(cached)
    assert met.state is State.MET


def test_an_image_that_is_pulled_through_is_asked_of_its_own_registry(cached):
    cached.registry.errors["docker.io/vllm/vllm-openai"] = "MANIFEST_UNKNOWN: manifest unknown"
    (found,) = [each for each in container_images(cached) if each.state is not State.MET]
    assert found.name == "vllm-openai:v0.32.0 from docker.io"


def test_a_snapshot_of_the_own_project_is_made_by_the_job_of_the_weights(google, project):
    models = dict(project.plan.platform.models)
    name = "llama-3.3-70b"
    disk = models[name].disk.model_copy(update={"snapshot": "llama-70b"})
    models[name] = models[name].model_copy(update={"disk": disk})
    platform = project.plan.platform.model_copy(update={"models": models})
    changed = replace(project, plan=resolve(platform))
    found = of(disks(changed), "projects/acme-inference-prod/global/snapshots/llama-70b")
    assert found.command == (
        f"{PUSH} llama-3.3-70b --in-cluster --from-hub ORGANIZATION/MODEL --snapshot llama-70b"
    )
