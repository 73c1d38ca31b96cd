"""Images of a stack: where they come from, what is made for them, and what is refused."""

import json

import pytest

from gke_inference.catalogue.versions import images
from infra.plan import resolve
from infra.plan.image_names import in_use, repository_names
from infra.plan.names import resolve_names
from infra.reading.load import STACKS, parse, platform_of, read
from infra.stack import Images, Platform
from infra.stack.images import PullThrough
from infra.stack.problems import StackError
from twin.cluster.agent.launching.claims import kind_of

LOGIN = {"username": "acme", "secret": "projects/acme/secrets/hub/versions/1"}


def stack(name: str, **changed: object) -> Platform:
    """Return a stack with other words under `images`."""
    document = platform_of(STACKS / f"Pulumi.{name}.yaml")
    document["images"] = {"repository": "engines", **changed}
    return parse(json.dumps(document))


def digests(platform: Platform) -> dict[str, str]:
    """Return a digest for every image that a platform runs."""
    short = [repository_names()[name] for name in resolve(platform).images.needed]
    return {name: f"sha256:{at:064x}" for at, name in enumerate(short)}


def images_in(records):
    """Return the images of all containers, by the provider that reaches their cluster."""
    found = {}
    for seen in records.registrations:
        if seen.type.startswith("kubernetes:"):
            region = seen.provider.split("::")[-2]
            found.setdefault(region, set()).update(in_use(seen.inputs))
    return found


@pytest.mark.parametrize("name", ["local", "dev", "prod"])
def test_what_a_stack_needs_is_what_its_pods_run(deployed, name):
    platform = read(name)
    used = set().union(*images_in(deployed(platform)).values())
    assert used == {images()[each].reference for each in resolve(platform).images.needed}


def test_every_pod_takes_its_image_from_the_repository_of_its_region(deployed):
    platform = stack("staging", attestation="enforce", digests=digests(read("staging")))
    found = images_in(deployed(platform))
    assert set(found) == {"us-central1", "us-east1"}
    for region, used in found.items():
        begin = f"{region}-docker.pkg.dev/{platform.project}/engines/"
        assert [each for each in used if not each.startswith(begin)] == []
        assert all("@sha256:" in each for each in used)
        assert any(each.startswith(f"{begin}vllm-gpu@") for each in used)


def test_an_image_without_a_digest_is_taken_from_where_it_comes_from(deployed):
    some = {"epp": "sha256:" + "1" * 64}
    used = images_in(deployed(stack("local", digests=some)))["us-central1"]
    ours = {each for each in used if "docker.pkg.dev" in each}
    assert ours == {f"us-central1-docker.pkg.dev/acme-inference-local/engines/epp@{some['epp']}"}
    assert images()["vllm_gpu"].reference in used


THROUGH = {"name": "upstream"}


def test_third_party_images_are_pulled_through_the_caches_of_their_region(deployed):
    some = {"epp": "sha256:" + "1" * 64}
    platform = read("staging")
    loose = Images(repository="engines", pull_through=PullThrough(name="upstream"), digests=some)
    records = deployed(platform.model_copy(update={"images": loose}))
    for region, used in images_in(records).items():
        host = f"{region}-docker.pkg.dev/{platform.project}"
        assert f"{host}/engines/epp@{some['epp']}" in used
        vllm = images()["vllm_gpu"].reference.removeprefix("docker.io/")
        assert f"{host}/upstream-docker-io/{vllm}" in used
        outside = {each.partition("/")[0] for each in used} - {f"{region}-docker.pkg.dev"}
        assert outside <= {"gcr.io", "gke.gcr.io", "gke-inference.invalid"}


def test_a_cache_is_there_before_the_nodes_that_pull_through_it(deployed):
    records = deployed(stack("local", pull_through=THROUGH))
    made = records.all("gcp:artifactregistry/repository:Repository")
    assert [each.inputs["repositoryId"] for each in made] == [
        "engines",
        "upstream-docker-io",
        "upstream-ghcr-io",
        "upstream-nvcr-io",
        "upstream-registry-k8s-io",
    ]
    order = [each.type for each in records.registrations]
    last = len(order) - 1 - order[::-1].index("gcp:artifactregistry/repository:Repository")
    assert last < order.index("gcp:container/cluster:Cluster")


def test_a_stack_without_images_makes_nothing_for_them(deployed):
    records = deployed(read("local"))
    made = {seen.type for seen in records.registrations}
    assert not [each for each in made if "binaryauth" in each or "artifactregistry" in each]
    cluster = records.one("gcp:container/cluster:Cluster").inputs
    assert "binaryAuthorization" not in cluster


@pytest.mark.parametrize(
    ("name", "word", "mode"),
    [
        ("local", "audit", "DRYRUN_AUDIT_LOG_ONLY"),
        ("staging", "enforce", "ENFORCED_BLOCK_AND_AUDIT"),
    ],
)
def test_attestation_asks_the_policy_in_every_cluster(deployed, name, word, mode):
    platform = stack(name, attestation=word, digests=digests(read(name)))
    records = deployed(platform)
    clusters = records.all("gcp:container/cluster:Cluster")
    assert len(clusters) == len(platform.regions)
    for cluster in clusters:
        assert cluster.inputs["binaryAuthorization"] == {
            "evaluationMode": "PROJECT_SINGLETON_POLICY_ENFORCE"
        }
    rules = records.one("gcp:binaryauthorization/policy:Policy").inputs["clusterAdmissionRules"]
    names = resolve_names(platform)
    assert [rule["cluster"] for rule in rules] == [
        f"{region}.{names.cluster(region)}" for region in sorted(platform.regions)
    ]
    assert all(rule["enforcementMode"].startswith(mode) for rule in rules)


def test_a_zonal_cluster_is_named_by_its_zone(deployed):
    records = deployed(stack("dev", attestation="audit"))
    rules = records.one("gcp:binaryauthorization/policy:Policy").inputs["clusterAdmissionRules"]
    assert rules[0]["cluster"].startswith("us-central1-b.")


def test_only_what_a_stack_uses_is_switched_on():
    word = {service.split(".")[0] for service in resolve(stack("local")).project.services}
    assert "artifactregistry" in word
    assert not {"cloudbuild", "binaryauthorization", "cloudkms"} & word
    assert (
        "binaryauthorization.googleapis.com"
        in resolve(stack("local", attestation="audit")).project.services
    )
    assert "artifactregistry.googleapis.com" not in resolve(read("local")).project.services


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"attestation": "enforce"}, "images.digests must have body-router, callout"),
        ({"digests": {"epq": "sha256:" + "0" * 64}}, "did you mean 'epp'"),
        ({"digests": {"epp": "v1.2.0"}}, "must be a digest: sha256: and 64 hexadecimal digits"),
        (
            {"pull_through": {"name": "up", "credentials": {"docker.oi": LOGIN}}},
            "images.pull_through.credentials.docker.oi must be one of docker.io, ghcr.io, nvcr.io,"
            " registry.k8s.io, got 'docker.oi'; did you mean 'docker.io'",
        ),
        (
            {"pull_through": {"name": "up", "credentials": {"ghcr.io": {**LOGIN, "secret": "s"}}}},
            "must be projects/PROJECT/secrets/SECRET/versions/VERSION, got 's'",
        ),
        (
            {"repository": "up-ghcr-io", "pull_through": {"name": "up"}},
            "images.pull_through.name must not result in the repository name up-ghcr-io",
        ),
        ({"attestation": "always"}, "must be one of none, audit, enforce, got 'always'"),
        (
            {"build": {"source": {"repository": "github.com/acme/platform"}}},
            "must be projects/PROJECT/locations/LOCATION/connections/CONNECTION",
        ),
    ],
)
def test_a_wrong_word_is_refused_when_the_stack_is_read(changed, message):
    with pytest.raises(StackError) as caught:
        stack("prod", **changed)
    assert message in str(caught.value)


def test_enforcing_takes_a_digest_of_everything_that_runs():
    known = digests(read("prod"))
    assert stack("prod", attestation="enforce", digests=known).images is not None
    known.pop("vllm-tpu")
    with pytest.raises(StackError, match="must have vllm-tpu when attestation is enforce"):
        stack("prod", attestation="enforce", digests=known)


@pytest.mark.parametrize("name", sorted(repository_names()))
def test_the_twin_takes_an_image_of_a_repository_for_what_it_is_a_copy_of(name):
    platform = stack("local", digests={repository_names()[name]: "sha256:" + "1" * 64})
    reference = images()[name].reference
    cached = stack("local", pull_through=THROUGH)
    stand_ins = [
        resolve(each).regions["us-central1"].images.replacements.get(reference)
        for each in (platform, cached)
    ]
    assert all(each is None or "docker.pkg.dev/" in each for each in stand_ins)
    assert stand_ins[0] is not None
    for container in ("engine", "catalogue", "adapter-loader"):
        here, *there = ({"name": container, "image": each} for each in (reference, *stand_ins))
        assert all(kind_of(each) is kind_of(here) for each in there if each["image"])
