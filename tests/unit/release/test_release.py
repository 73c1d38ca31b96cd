"""The files of a release. The short form of the build, which is at the end and marked soak."""

import json
import subprocess
import tarfile
import zipfile

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from gke_inference.catalogue.versions import Image, builds
from scripts.release import build as release
from scripts.release.build import write_images
from scripts.release.checksums import checksums_of, differences, write_checksums
from scripts.release.contents.images import contents, linked_modules, packages_of
from scripts.release.contents.record import Package, Registry, read_record, unrecorded
from scripts.release.plugin_archive import write_archive
from scripts.release.provenance import PROVENANCE
from scripts.release.sboms import SBOM, image_sbom, name_of
from scripts.release.sources import Commit, committed, export, head
from scripts.release.verify import check_files
from scripts.terminal.console import CommandError
from twin.host.paths import REPOSITORY

SECONDS = 1_700_000_000


@pytest.fixture
def repository(tmp_path):
    """A repository with one commit."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "kept.txt").write_text("kept\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for arguments in (("init", "-q"), ("add", "."), (*identity, "commit", "-q", "-m", "First")):
        subprocess.run(["git", "-C", str(folder), *arguments], check=True)
    return folder


def test_a_release_has_the_files_of_the_commit_and_no_others(repository, tmp_path):
    (repository / "kept.txt").write_text("edited\n")
    (repository / "new.txt").touch()
    export(repository, head(repository), tmp_path / "out")
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["kept.txt"]
    assert (tmp_path / "out" / "kept.txt").read_text() == "kept\n"


def test_uncommitted_changes_are_refused_by_name(repository):
    assert committed(repository) == head(repository)
    (repository / "new.txt").touch()
    with pytest.raises(CommandError) as refused:
        committed(repository)
    assert str(refused.value) == (
        "working tree: must have no uncommitted changes, got 1, such as new.txt"
    )


def test_a_plugin_archive_depends_only_on_names_contents_and_the_time_of_the_commit(tmp_path):
    linked = tmp_path / "elsewhere"
    linked.mkdir()
    (linked / "main.py").write_text("main")
    for folder, names, mode in (("a", ("z.py", "b.py"), 0o600), ("c", ("b.py", "z.py"), 0o755)):
        (tmp_path / folder / "package").mkdir(parents=True)
        (tmp_path / folder / "package" / "linked").symlink_to(linked)
        (tmp_path / folder / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
        for name in names:
            (tmp_path / folder / "package" / name).write_text(name)
            (tmp_path / folder / "package" / name).chmod(mode)
    archive = write_archive(tmp_path / "a", tmp_path, SECONDS)
    assert archive.name == "pulumi-resource-gke-inference-v1.2.3.tar.gz"
    with tarfile.open(archive) as packed:
        assert packed.getnames() == [
            "package/b.py",
            "package/linked/main.py",
            "package/z.py",
            "pyproject.toml",
        ]
        assert {(each.mtime, each.mode, each.uname) for each in packed} == {(SECONDS, 0o644, "")}
    content = archive.read_bytes()
    assert write_archive(tmp_path / "c", tmp_path, SECONDS).read_bytes() == content
    assert write_archive(tmp_path / "a", tmp_path, SECONDS + 1).read_bytes() != content


def test_images_are_listed_with_their_digest_or_as_to_be_built(tmp_path):
    images = {
        "picker": Image("ghcr.io/acme/picker", "v1", "sha256:00"),
        "own": Image("gke-inference.invalid/own", "v0.1.0"),
    }
    write_images(images, tmp_path / "images.json")
    assert json.loads((tmp_path / "images.json").read_text()) == [
        {
            "name": "own",
            "repository": None,
            "tag": "v0.1.0",
            "digest": None,
            "is_built_by_you": True,
        },
        {
            "name": "picker",
            "repository": "ghcr.io/acme/picker",
            "tag": "v1",
            "digest": "sha256:00",
            "is_built_by_you": False,
        },
    ]


def test_checksums_are_what_sha256sum_checks(tmp_path):
    (tmp_path / "a.whl").write_text("a")
    write_checksums(tmp_path)
    check = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
    assert subprocess.run(check, cwd=tmp_path, check=False).returncode == 0
    (tmp_path / "a.whl").write_text("b")
    changed = subprocess.run(check, cwd=tmp_path, capture_output=True, check=False)
    assert changed.returncode == 1


def test_two_builds_that_differ_are_a_failed_check_that_names_the_files(tmp_path, monkeypatch):
    builds = iter([{"a.whl": "1", "b.whl": "2", "c.whl": "3"}, {"a.whl": "1", "b.whl": "4"}])

    def build(_repository, _commit, folder):
        for name, content in next(builds).items():
            (folder / name).write_text(content)

    monkeypatch.setattr(release, "build", build)
    with pytest.raises(CommandError) as failed:
        release.build_twice(tmp_path, Commit("0a1b", SECONDS), tmp_path)
    said = str(failed.value)
    assert said.startswith("two builds of 0a1b differ: b.whl: differs, ")
    assert said.endswith("; c.whl: only in the first build")
    assert "a.whl" not in said
    assert differences({}, {"d.whl": "5"}) == ["d.whl: only in the second build"]


def sbom_of(target):
    sbom = image_sbom(REPOSITORY, contents(REPOSITORY)[target], read_record(), SECONDS)
    found = JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(sbom))
    assert found is None, found
    return sbom


def names_in(sbom):
    return {each["purl"] for each in sbom["components"] if "purl" in each}


def test_the_sbom_of_an_image_has_its_packages_its_base_and_what_is_not_known():
    sbom = sbom_of("batch")
    image = contents(REPOSITORY)["batch"]
    assert names_in(sbom) == {each.url for each in packages_of(REPOSITORY, image)}
    [aiohttp] = [each for each in sbom["components"] if each["name"] == "aiohttp"]
    assert aiohttp["licenses"][0]["expression"] == "Apache-2.0 AND MIT"
    assert aiohttp["externalReferences"][0]["hashes"][0]["alg"] == "SHA-256"
    [base] = [each for each in sbom["components"] if each["type"] == "container"]
    assert base["name"] == "docker.io/library/python"
    assert image.base is not None
    assert base["hashes"][0]["content"] in image.base.digest
    assert sbom["metadata"]["properties"][0]["value"].startswith("Packages of docker.io/library/py")
    assert sbom["compositions"][0]["aggregate"] == "incomplete"


def test_an_image_without_a_lock_of_its_own_has_only_its_base_in_the_sbom():
    sbom = sbom_of("sglang-gpu")
    assert [each["type"] for each in sbom["components"]] == ["container"]


def test_the_dockerfile_has_a_target_for_each_image_with_contents():
    text = (REPOSITORY / "workloads/images/Dockerfile").read_text()
    for target, image in contents(REPOSITORY).items():
        assert f" AS {target}\n" in text
        if image.program is not None:
            name = image.program.removeprefix("./")
            assert f"COPY --from=programs --chmod=0555 /programs/{name} /{name}" in text


@pytest.mark.needs_tools  # downloads modules where no program was built
def test_the_sbom_of_a_go_program_has_the_modules_that_it_links():
    modules = {
        Package(Registry.GO, each.path, each.version).url
        for each in linked_modules(REPOSITORY / "workloads/gateway", "./callout")
    }
    sbom = sbom_of("callout")
    assert names_in(sbom) == {*modules, f"pkg:golang/std@{image_go_version()}"}
    assert "pkg:golang/google.golang.org/grpc@" in " ".join(modules)
    assert "miniredis" not in " ".join(modules)  # only tests import it


@pytest.mark.needs_tools
def test_each_module_of_a_go_program_has_a_recorded_license_and_no_other_has():
    images = contents(REPOSITORY).values()
    linked = {each for one in images if one.program for each in packages_of(REPOSITORY, one)}
    recorded = {each: "" for each in read_record() if each.registry is Registry.GO}
    assert unrecorded(linked, recorded) == []


def image_go_version():
    return builds()["callout"].base.tag.removesuffix("-bookworm")


@pytest.mark.soak  # builds every package twice; the tests above have its parts
def test_two_builds_of_this_commit_are_equal_and_complete(tmp_path):
    release.build_twice(REPOSITORY, head(REPOSITORY), tmp_path)
    from gke_inference.plugin import NAME, VERSION  # noqa: PLC0415 - takes seconds

    members = ("", "_bench", "_components", "_planner", "_simulator", "_twin", "_workloads")
    wheels = {f"gke_inference{member}-{VERSION}-py3-none-any.whl" for member in members}
    plugin = f"pulumi-resource-{NAME}-v{VERSION}.tar.gz"
    sboms = {name_of(each.target) for each in builds().values()}
    assert set(checksums_of(tmp_path)) == {*wheels, plugin, "images.json", SBOM, PROVENANCE, *sboms}
    assert {*check_files(tmp_path, head(REPOSITORY), REPOSITORY)} == {*checksums_of(tmp_path)}
    with zipfile.ZipFile(tmp_path / f"gke_inference-{VERSION}-py3-none-any.whl") as wheel:
        assert {name.split("/")[0] for name in wheel.namelist()} == {
            *("infra", "policies", "scripts", f"gke_inference-{VERSION}.dist-info")
        }
    with tarfile.open(tmp_path / plugin) as archive:
        assert {"PulumiPlugin.yaml", "__main__.py", "pyproject.toml"} <= set(archive.getnames())
    sbom = json.loads((tmp_path / SBOM).read_text())
    assert sbom["bomFormat"] == "CycloneDX"
    assert sbom["metadata"]["component"]["name"] == "gke-inference"
    lock = (REPOSITORY / "requirements.lock").read_text()
    pinned = {line.split("==")[0] for line in lock.splitlines() if "==" in line.split(" ")[0]}
    assert {component["name"] for component in sbom["components"]} == pinned
