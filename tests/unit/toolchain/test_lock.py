"""The lock of official binaries: its addresses, and what `gke-inference tools lock` writes."""

import hashlib
import re

import pytest
import yaml
from typer.testing import CliRunner

from scripts.app import build_app
from tests.unit.toolchain.conftest import release_of
from twin.toolchain import lock
from twin.toolchain.registry import MODULES, Module, ToolError, modules
from twin.toolchain.sources import downloads, platforms

OTHER = "1" * 64


def run_lock(monkeypatch):
    monkeypatch.setattr("scripts.develop.tools_lock.ensure_tools", lambda purpose: None)
    return CliRunner().invoke(build_app(("tools",)), ["tools", "lock"])


def test_the_lock_of_the_repository_has_the_addresses_of_todays_versions():
    listed = yaml.safe_load((MODULES / "lock.yaml").read_text())
    assert list(listed) == lock.addresses()
    assert all(
        re.fullmatch("sha256:[0-9a-f]{64}", value or f"sha256:{OTHER}") for value in listed.values()
    )


@pytest.mark.parametrize(
    ("module", "address"),
    [
        (
            "pulumi",
            "https://github.com/pulumi/pulumi/releases/download/v3.250.0/"
            "pulumi-v3.250.0-linux-x64.tar.gz",
        ),
        ("kubernetes", "https://dl.k8s.io/v1.36.3/bin/linux/amd64/kube-apiserver"),
        (
            "etcd",
            "https://github.com/etcd-io/etcd/releases/download/v3.6.8/"
            "etcd-v3.6.8-linux-amd64.tar.gz",
        ),
        (
            "prometheus",
            "https://github.com/prometheus/prometheus/releases/download/v3.13.5/"
            "prometheus-3.13.5.linux-amd64.tar.gz",
        ),
        (
            "crane",
            "https://github.com/google/go-containerregistry/releases/download/v0.22.1/"
            "go-containerregistry_Linux_x86_64.tar.gz",
        ),
        ("lws", "registry.k8s.io/lws/lws:v0.9.0#linux/amd64"),
    ],
)
def test_a_tool_has_the_address_that_its_project_publishes(module, address):
    assert release_of(module, "linux/amd64")[0].address == address


def test_every_release_provides_every_program_of_its_module():
    for module in modules().values():
        for platform in platforms(module):
            offered = [name for name in module.releases if platform in name["platforms"]]
            assert len(list(downloads(module, platform))) == len(offered)


def test_where_a_tool_comes_from_is_no_part_of_its_key():
    module = modules()["etcd"]
    spec = {key: value for key, value in module.spec.items() if key != "releases"}
    assert Module("etcd", spec).key == module.key
    assert Module("etcd", {**spec, "tags": "other"}).key != module.key


def test_a_version_that_the_release_number_does_not_match_is_refused():
    spec = {**modules()["prometheus"].spec, "release_number": {"pattern": "x", "becomes": ""}}
    with pytest.raises(ToolError) as refused:
        list(downloads(Module("prometheus", spec), "linux/amd64"))
    assert str(refused.value) == ("prometheus: release_number must match the version, got v0.313.5")


def test_locking_writes_published_checksums_and_downloads_the_rest(mirror, locked, monkeypatch):
    content = b"program"
    digest = hashlib.sha256(content).hexdigest()
    monkeypatch.setattr("twin.toolchain.images.digest_of", lambda download: OTHER)
    published = {}
    for module in modules().values():
        for platform in platforms(module):
            for release in downloads(module, platform):
                for download in release:
                    mirror.files[download.address] = content
                    line = f"{digest}  {download.file_name}\n".encode()
                    before = published.get(download.checksums, b"")
                    published[download.checksums] = before + line
    mirror.files.update(published)
    answer = run_lock(monkeypatch)
    assert answer.exit_code == 0, answer.output
    written = lock.read_lock()
    assert list(written) == lock.addresses()
    assert {value for key, value in written.items() if "://" in key} == {digest}
    assert {value for key, value in written.items() if "://" not in key} == {OTHER}
    fetched = {address for address, _ in mirror.requests if address in written}
    assert {address.rsplit("/", 1)[-1][:4] for address in fetched} == {"kwok"}
    assert locked.read_text().startswith("# SHA-256 checksums of the official binaries")


def test_what_cannot_be_read_keeps_its_entry_and_fails(mirror, locked, monkeypatch):
    monkeypatch.setattr("twin.toolchain.images.digest_of", lambda download: OTHER)
    [download] = release_of("actionlint", "linux/amd64")
    locked.write_text(
        f"{download.address}: sha256:{OTHER}\nhttps://gone.example/old: sha256:{OTHER}\n"
    )
    answer = run_lock(monkeypatch)
    assert answer.exit_code == 1
    assert lock.read_lock()[download.address] == OTHER
    assert "https://gone.example/old" not in lock.read_lock()
    assert "actionlint_1.7.12_checksums.txt answered 404" in answer.stdout


def test_another_checksum_than_the_locked_one_is_not_taken_over(mirror, locked, monkeypatch):
    monkeypatch.setattr("twin.toolchain.images.digest_of", lambda download: OTHER)
    [download] = release_of("actionlint", "linux/amd64")
    locked.write_text(f"{download.address}: sha256:{OTHER}\n")
    content = mirror.publish(download, {"actionlint": b"changed"})
    answer = run_lock(monkeypatch)
    assert answer.exit_code == 1
    assert lock.read_lock()[download.address] == OTHER
    assert (
        f"{download.address}: must stay {OTHER}, as it is locked, got "
        f"{hashlib.sha256(content).hexdigest()}; delete the entry to accept the new file"
    ) in answer.stdout
