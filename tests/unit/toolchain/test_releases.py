"""Official binaries from a mirror on loopback: checksums, faults, and what follows them."""

import hashlib
import socket
import stat

import pytest

from tests.unit.toolchain.conftest import release_of
from twin.toolchain import cache, find, lock, network
from twin.toolchain.install import provide
from twin.toolchain.registry import ToolError, modules

PROGRAM = b"#!/bin/sh\necho official\n" + b"x" * 100_000
OTHER = "0" * 64


def obtain(*names):
    """Return the lines that were reported while modules were obtained."""
    lines = []
    provide([modules()[name] for name in names], report=lines.append)
    return lines


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def test_a_program_comes_out_of_the_archive_with_the_published_checksum(mirror, platform, built):
    [download] = release_of("actionlint", platform)
    content = mirror.publish(download, {"actionlint": PROGRAM})
    assert obtain("actionlint") == []
    program = find.tool("actionlint")
    assert program.read_bytes() == PROGRAM
    assert stat.S_IMODE(program.stat().st_mode) == 0o755
    assert [file.name for file in program.parent.iterdir()] == ["actionlint"]
    assert cache.origin_of(modules()["actionlint"]) == {
        "from": "release",
        "checksums": {download.address: sha256(content)},
    }
    assert built == []


def test_a_published_checksum_is_recorded_and_counts_from_then_on(mirror, platform, built, cache):
    [download] = release_of("actionlint", platform)
    content = mirror.publish(download, {"actionlint": PROGRAM})
    obtain("actionlint")
    assert lock.expected(download.address) == (
        sha256(content),
        "the first download, recorded in the cache",
    )
    # the project, or somebody in its place, publishes another file at the same address
    changed = sha256(mirror.publish(download, {"actionlint": b"other"}))
    cache_folder = cache / modules()["actionlint"].key
    (cache_folder / ".complete").unlink()
    [line] = obtain("actionlint")
    assert f"the checksum must be {sha256(content)} (the first download, recorded" in line
    assert line.endswith(f"got {changed}")
    assert built == ["actionlint"]


def test_separate_programs_replace_a_binary_that_is_several_in_one(mirror, platform, built):
    release = release_of("kubernetes", platform)
    for download in release:
        [program] = download.members
        mirror.publish(download, {program: program.encode()})
    obtain("kubernetes")
    for program in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"):
        assert find.tool(program).read_text() == program
    assert len(release) == 4
    assert built == []


def test_the_checksum_of_the_lock_counts_and_no_other_is_asked_for(mirror, platform, built, locked):
    [download] = release_of("kwok", platform)
    content = mirror.publish(download, {"kwok": PROGRAM})
    locked.write_text(f"{download.address}: sha256:{sha256(content)}\n")
    assert obtain("kwok") == []
    assert find.tool("kwok").read_bytes() == PROGRAM
    assert mirror.requests == [(download.address, None)]


@pytest.mark.parametrize("where", ["published", "locked"])
def test_a_wrong_checksum_leaves_nothing_and_the_tool_is_built(
    mirror, platform, built, locked, cache, where
):
    [download] = release_of("actionlint", platform)
    wrong = OTHER if where == "published" else None
    content = mirror.publish(download, {"actionlint": PROGRAM}, checksum=wrong)
    source = "published beside it"
    if where == "locked":
        locked.write_text(f"{download.address}: sha256:{OTHER}\n")
        source = "twin/tools/lock.yaml"
    [line] = obtain("actionlint")
    assert line == (
        "Building actionlint v1.7.12 from source, once on this machine: "
        f"{download.address}: the checksum must be {OTHER} ({source}), got {sha256(content)}"
    )
    assert find.tool("actionlint").read_text() == "#!/bin/sh\necho from source\n"
    assert list((cache / "downloads").iterdir()) == []
    assert built == ["actionlint"]


def test_a_file_without_any_checksum_is_not_downloaded(mirror, platform, built):
    [download] = release_of("kwok", platform)
    mirror.publish(download, {"kwok": PROGRAM})
    [line] = obtain("kwok")
    assert (
        f"{download.address}: no checksum is published, and twin/tools/lock.yaml has none" in line
    )
    assert (download.address, None) not in mirror.requests
    assert built[-1] == "kwok"


def test_a_list_of_checksums_without_the_file_is_refused(mirror, platform, built):
    [download] = release_of("actionlint", platform)
    mirror.publish(download, {"actionlint": PROGRAM})
    mirror.files[download.checksums] = f"{OTHER}  another.tar.gz\n".encode()
    [line] = obtain("actionlint")
    assert line.endswith(f"{download.checksums} lists no checksum of {download.file_name}")
    assert built == ["actionlint"]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_download_that_is_cut_goes_on(mirror, platform, built, ranges):
    [download] = release_of("actionlint", platform)
    content = mirror.publish(download, {"actionlint": bytes(range(256)) * 1000})
    mirror.cut_after[download.address] = 500
    mirror.ranges = ranges
    assert len(content) > 500
    assert obtain("actionlint") == []
    assert find.tool("actionlint").read_bytes() == bytes(range(256)) * 1000
    asked = [header for address, header in mirror.requests if address == download.address]
    assert asked == [None, "bytes=500-"]


def test_an_interrupted_download_ends_and_keeps_what_it_has(mirror, platform, built, cache):
    [download] = release_of("actionlint", platform)
    content = mirror.publish(download, {"actionlint": PROGRAM})
    network.cancel()
    [line] = obtain("actionlint")
    assert line.endswith("actionlint_1.7.12_linux_amd64.tar.gz: interrupted")
    [partial] = (cache / "downloads").iterdir()
    assert partial.name == f"{sha256(content)[:12]}-{download.file_name}.partial"


def test_an_address_that_is_not_there_is_asked_once_and_the_tool_is_built(mirror, platform, built):
    [download] = release_of("actionlint", platform)
    mirror.publish(download, {"actionlint": PROGRAM})
    del mirror.files[download.address]
    [line] = obtain("actionlint")
    assert line.endswith("actionlint_1.7.12_linux_amd64.tar.gz answered 404")
    assert [address for address, _ in mirror.requests].count(download.address) == 1
    assert built == ["actionlint"]


def test_an_archive_without_the_program_is_refused(mirror, platform, built):
    [download] = release_of("etcd", platform)
    content = b"no archive at all"
    mirror.files[download.address] = content
    mirror.files[download.checksums] = f"{sha256(content)}  {download.file_name}\n".encode()
    [line] = obtain("etcd")
    assert "etcd-v3.6.8-linux-amd64.tar.gz cannot be unpacked" in line
    assert built == ["etcd"]


def test_without_a_network_each_host_is_asked_once_and_all_is_built(
    cache, locked, platform, built, monkeypatch
):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    monkeypatch.setenv("GKE_INFERENCE_TOOLS_MIRROR", f"http://127.0.0.1:{port}")
    probes = []
    probe = network._probe
    monkeypatch.setattr(network, "_probe", lambda origin: probes.append(origin) or probe(origin))
    [line] = obtain("pulumi", "kubernetes", "etcd", "crane", "prometheus")
    assert probes == [f"http://127.0.0.1:{port}"]
    assert line.count("is not reachable") == 1
    assert line.startswith(
        "Building pulumi v3.250.0, kubernetes v1.36.3, etcd v3.6.8, crane v0.22.1, "
        f"prometheus v0.313.5 from source, once on this machine: 127.0.0.1:{port} is not reachable"
    )
    assert sorted(built) == ["crane", "etcd", "kubernetes", "prometheus", "pulumi"]


@pytest.mark.parametrize(
    "address", ["ftp://mirror.example", "mirror.example", "https://", "http://host:port/x"]
)
def test_a_mirror_that_is_no_address_is_refused_before_anything_is_done(
    cache, built, monkeypatch, address
):
    monkeypatch.setenv("GKE_INFERENCE_TOOLS_MIRROR", address)
    with pytest.raises(ToolError) as refused:
        obtain("actionlint")
    assert str(refused.value) == (
        "GKE_INFERENCE_TOOLS_MIRROR: must be an address such as https://mirror.example/tools, "
        f"got '{address}'"
    )
    assert built == []
    assert not cache.exists()


def test_the_network_can_be_left_out(mirror, platform, built, monkeypatch):
    [download] = release_of("actionlint", platform)
    mirror.publish(download, {"actionlint": PROGRAM})
    monkeypatch.setenv("GKE_INFERENCE_TOOLS_FROM", "source")
    [line] = obtain("actionlint")
    assert line.endswith("GKE_INFERENCE_TOOLS_FROM is 'source'")
    assert (mirror.requests, built) == ([], ["actionlint"])


def test_another_value_than_source_is_refused(cache, built, monkeypatch):
    monkeypatch.setenv("GKE_INFERENCE_TOOLS_FROM", "releases")
    with pytest.raises(ToolError) as refused:
        obtain("actionlint")
    expected = "GKE_INFERENCE_TOOLS_FROM: must be 'source' or unset, got 'releases'"
    assert str(refused.value) == expected


def test_what_has_code_of_ours_is_built_from_source_wherever_it_runs(mirror, platform, built):
    lines = obtain("picker", "rulescope")
    assert sorted(built) == ["picker", "rulescope"]
    assert lines == [
        "Building picker v1.2.0, rulescope v0.313.5 from source, once on this machine: "
        "no official binaries are published"
    ]
    assert mirror.requests == []


def test_a_platform_without_binaries_is_named(mirror, built, monkeypatch):
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    [line] = obtain("etcd")
    assert line.endswith("none is published for linux/riscv64")
    assert built == ["etcd"]


def test_a_tool_that_is_there_is_not_obtained_again(mirror, platform, built):
    [download] = release_of("actionlint", platform)
    mirror.publish(download, {"actionlint": PROGRAM})
    obtain("actionlint")
    before = len(mirror.requests)
    assert obtain("actionlint") == []
    assert len(mirror.requests) == before
