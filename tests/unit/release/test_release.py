"""The files of a release. The short form of the build, which is at the end and marked soak."""

import json
import subprocess
import tarfile
import zipfile

import pytest

from gke_inference.catalogue.versions import Image
from scripts.release import build as release
from scripts.release.build import write_images
from scripts.release.checksums import checksums_of, differences, write_checksums
from scripts.release.packages import SBOM
from scripts.release.plugin_archive import write_archive
from scripts.release.sources import Commit, committed, export, head
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
    for folder, names, mode in (("a", ("z.py", "b.py"), 0o600), ("c", ("b.py", "z.py"), 0o755)):
        (tmp_path / folder / "package").mkdir(parents=True)
        (tmp_path / folder / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
        for name in names:
            (tmp_path / folder / "package" / name).write_text(name)
            (tmp_path / folder / "package" / name).chmod(mode)
    archive = write_archive(tmp_path / "a", tmp_path, SECONDS)
    assert archive.name == "pulumi-resource-gke-inference-v1.2.3.tar.gz"
    with tarfile.open(archive) as packed:
        assert packed.getnames() == ["package/b.py", "package/z.py", "pyproject.toml"]
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


@pytest.mark.soak  # builds every package twice; the tests above have its parts
def test_two_builds_of_this_commit_are_equal_and_complete(tmp_path):
    release.build_twice(REPOSITORY, head(REPOSITORY), tmp_path)
    from gke_inference.plugin import NAME, VERSION  # noqa: PLC0415 - takes seconds

    members = ("", "_bench", "_components", "_planner", "_simulator", "_twin", "_workloads")
    wheels = {f"gke_inference{member}-{VERSION}-py3-none-any.whl" for member in members}
    plugin = f"pulumi-resource-{NAME}-v{VERSION}.tar.gz"
    assert set(checksums_of(tmp_path)) == {*wheels, plugin, "images.json", SBOM}
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
