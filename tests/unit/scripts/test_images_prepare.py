"""`gke-inference images prepare` against the twin's Cloud Build, with a fake `pulumi`."""

import io
import json
import subprocess
import tarfile
import time
from dataclasses import replace

import pytest

from gke_inference.catalogue.versions import builds
from infra.plan import resolve
from infra.reading.load import STACKS, parse, platform_of, read
from scripts.backend.twin_cloud import twin_cloud
from scripts.images import build, prepare
from scripts.images.actions import ImagesError
from scripts.images.registry import TwinRegistry
from scripts.shared.google_cloud import ServiceDisabled
from scripts.shared.pulumi_cli import PulumiCli
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import gcs
from twin.providers.gcp.server import world_of
from twin.world.built_images import PushRefused, digest_of, is_built, push
from twin.world.store import Record

PROJECT = "acme-inference-dev"
ACCOUNT = f"acme-dev-images@{PROJECT}.iam.gserviceaccount.com"
BUCKET = "acme-dev-image-sources"
REPOSITORY = f"projects/{PROJECT}/locations/us-central1/repositories/engines"
TAG = f"us-central1-docker.pkg.dev/{PROJECT}/engines/body-router:{builds()['body_router'].version}"
ACCEPTED = {
    "gcp:projects/service:Service": (f"{PROJECT}/cloudbuild.googleapis.com", {}),
    "gcp:serviceaccount/account:Account": (f"projects/{PROJECT}/serviceAccounts/{ACCOUNT}", {}),
    "gcp:artifactregistry/repository:Repository": (
        REPOSITORY,
        {"location": "us-central1", "repositoryId": "engines"},
    ),
    "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember": (
        "writer",
        {
            "member": f"serviceAccount:{ACCOUNT}",
            "repository": REPOSITORY,
            "role": "roles/artifactregistry.writer",
        },
    ),
    "gcp:storage/bucketIAMMember:BucketIAMMember": (
        "reader",
        {
            "bucket": BUCKET,
            "member": f"serviceAccount:{ACCOUNT}",
            "role": "roles/storage.objectViewer",
        },
    ),
}
"""What the first step of `dev` creates, by type: identifier and inputs."""


class Pulumi(PulumiCli):
    """Creates the resources of the first step on a twin."""

    def __init__(self, paths):
        super().__init__({})
        self.paths, self.absent, self.runs = paths, set(), 0

    def outputs(self, name):
        return {}

    def deployment(self, name):
        return {}

    def run(self, *arguments, capture=False, environment=None, project=None):
        self.runs += 1
        for token, (identifier, inputs) in ACCEPTED.items():
            store = world_of(self.paths).store
            if token in self.absent or store.get(token, identifier) is not None:
                continue
            name = identifier.rpartition("/")[2]
            outputs = {"email": name} if token.endswith(":Account") else {}
            given = (token, identifier, name, PROJECT, f"urn:{token}", "ready", True, inputs)
            store.add(Record(*given, outputs, time.time()), [])
        return subprocess.CompletedProcess(arguments, 0)


class Objects:
    """Buckets, which the twin reads as well."""

    def __init__(self):
        self.kept = {}

    def get(self, bucket, name):
        return self.kept.get((bucket, name))

    def upload(self, bucket, name, stream, size, *, is_final):
        self.kept[bucket, name] = stream.read()
        assert len(self.kept[bucket, name]) == size
        return ""


class Rig:
    """A twin, and what `prepare` prints."""

    def __init__(self, paths, monkeypatch):
        self.paths, self.said = paths, []
        self.pulumi, self.objects = Pulumi(paths), Objects()
        monkeypatch.setattr(gcs, "has_object", lambda _, *at: at in self.objects.kept)
        monkeypatch.setattr(gcs, "read", lambda _, *at: self.objects.kept[at])
        cloud = replace(twin_cloud(PROJECT, 1, paths), sleep=lambda _: None)
        self.place = prepare.Place(
            lambda: self.pulumi, lambda: cloud, TwinRegistry(paths), lambda: self.objects
        )

    def prepare(self, revision="HEAD", platform=None, *, is_local=False):
        found = platform or read("dev")
        absent = prepare.check(resolve(found).images, is_local=is_local)
        return prepare.prepare(
            self.place, "dev", resolve(found), absent, revision, self.said.append, yes=True,
            is_local=is_local,
        )  # fmt: skip


@pytest.fixture
def rig(tmp_path, monkeypatch):
    paths = TwinPaths(tmp_path / "twin")
    paths.create()
    return Rig(paths, monkeypatch)


def test_one_step_creates_the_repository_builds_the_images_and_reads_their_digests(rig):
    digests = rig.prepare()
    assert list(digests) == ["body-router"]
    assert digests["body-router"] == digest_of(rig.paths, f"{TAG}-HEAD")
    assert rig.said[1:] == ["body-router: built", f"body-router: {digests['body-router']}"]
    ((bucket, name),) = rig.objects.kept
    assert (bucket, name) == (BUCKET, "HEAD.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(rig.objects.kept[bucket, name])) as archive:
        names = archive.getnames()
    assert "workloads/images/Dockerfile" in names
    assert {each.partition("/")[0] for each in names} == {"workloads"}


def test_an_image_that_is_there_is_not_built_again(rig):
    first = rig.prepare()
    rig.said.clear()
    assert rig.prepare() == first
    assert rig.said == [f"body-router: {first['body-router']}"]
    assert rig.pulumi.runs == 2


@pytest.mark.parametrize(
    ("absent", "message"),
    [
        ("gcp:storage/bucketIAMMember:BucketIAMMember", "does not have storage.objects.get access"),
        ("gcp:artifactregistry/repository:Repository", "the repository was not found"),
        (
            "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember",
            'Permission "artifactregistry.repositories.uploadArtifacts" denied',
        ),
    ],
)
def test_a_build_fails_without_what_its_account_needs(rig, absent, message):
    rig.pulumi.absent = {absent}
    with pytest.raises(ImagesError, match="body-router: the build ended with FAILURE: ") as error:
        rig.prepare()
    assert message in str(error.value)


def test_a_build_is_refused_while_its_api_is_off(rig):
    rig.pulumi.absent = {"gcp:projects/service:Service"}
    with pytest.raises(ServiceDisabled, match=r"cloudbuild\.googleapis\.com is not enabled"):
        rig.prepare()


def test_a_build_fails_without_its_dockerfile(rig):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz"):
        pass
    rig.objects.kept[BUCKET, "HEAD.tar.gz"] = content.getvalue()
    with pytest.raises(
        ImagesError, match="failed to read dockerfile: open workloads/images/Dockerfile"
    ):
        rig.prepare()


def test_a_commit_that_the_checkout_does_not_have_cannot_be_built(rig):
    with pytest.raises(ImagesError, match="--revision: must be a commit of this checkout, got 'n'"):
        rig.prepare("n")


def test_a_tag_keeps_the_image_that_it_was_given_first(rig):
    rig.pulumi.run()
    push(rig.paths, f"{TAG}-a", f"sha256:{'1' * 64}")
    push(rig.paths, f"{TAG}-a", f"sha256:{'1' * 64}")
    with pytest.raises(PushRefused, match="the tag is immutable"):
        push(rig.paths, f"{TAG}-a", f"sha256:{'2' * 64}")


def test_images_go_with_their_repository(rig):
    rig.prepare()
    version = builds()["body_router"].version
    assert is_built(rig.paths, PROJECT, "body-router", version)
    assert not is_built(rig.paths, PROJECT, "callout", version)
    kind = "gcp:artifactregistry/repository:Repository"
    world_of(rig.paths).store.remove(kind, REPOSITORY)
    assert not is_built(rig.paths, PROJECT, "body-router", version)
    rig.pulumi.run()
    assert not is_built(rig.paths, PROJECT, "body-router", version)


def test_a_local_build_needs_no_cloud_build(rig, monkeypatch):
    document = platform_of(STACKS / "Pulumi.dev.yaml")
    del document["images"]["build"]
    platform = parse(json.dumps(document))
    with pytest.raises(ImagesError, match=r"images\.build: is required in the stack \(`build: {}`"):
        prepare.check(resolve(platform).images, is_local=False)
    ran = []

    def run_local(target):
        ran.append(target.build.target)
        push(rig.paths, f"{target.name(target.repositories[0])}:{target.tag}", "sha256:" + "3" * 64)

    monkeypatch.setattr(build, "run_local", run_local)
    assert rig.prepare(platform=platform, is_local=True) == {"body-router": "sha256:" + "3" * 64}
    assert ran == ["body-router"]


def test_sources_that_no_commit_has_are_refused(monkeypatch):
    monkeypatch.setattr(build, "uncommitted", lambda: ["workloads/a.py", "workloads/b.py"])
    with pytest.raises(ImagesError, match=r"^workloads/a\.py and 1 more: must be committed"):
        prepare.check_committed()
    monkeypatch.setattr(build, "uncommitted", list)
    prepare.check_committed()
