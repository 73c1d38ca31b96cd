"""Programs out of images: what crane is asked, with a stand-in for crane."""

import hashlib
import io
import tarfile

import pytest

from tests.unit.toolchain.conftest import release_of
from twin.toolchain import cache, find, lock
from twin.toolchain.install import provide
from twin.toolchain.registry import modules

DIGEST = hashlib.sha256(b"manifest").hexdigest()


def file_system(**files):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as packed:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


@pytest.fixture
def crane(mirror, platform, tmp_path, monkeypatch):
    """Put a stand-in for crane on PATH; it serves one image and notes what it is asked."""
    folder = tmp_path / "path"
    folder.mkdir()
    (folder / "image.tar").write_bytes(file_system(epp=b"official", passwd=b"root"))
    program = folder / "crane"
    program.write_text(
        f"""#!/bin/sh
test "$1" = version || echo "$@" >> {folder}/asked
case "$1" in
  version) echo v0.22.1 ;;
  digest) echo sha256:{DIGEST} ;;
  export) cat {folder}/image.tar ;;
esac
"""
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    find.official.cache_clear()
    return folder


def obtain(name):
    lines = []
    provide([modules()[name]], report=lines.append)
    return lines


def test_a_program_comes_out_of_the_image_of_the_digest(crane, mirror, built):
    assert obtain("epp") == []
    assert find.tool("epp").read_bytes() == b"official"
    [download] = release_of("epp", "linux/amd64")
    assert cache.origin_of(modules()["epp"])["checksums"] == {download.address: DIGEST}
    host = mirror.url.removeprefix("http://")
    image = f"{host}/registry.k8s.io/gateway-api-inference-extension/epp"
    assert (crane / "asked").read_text().splitlines() == [
        f"digest --platform linux/amd64 {image}:v1.5.0 --insecure",
        f"export {image}@sha256:{DIGEST} - --insecure",
    ]
    assert built == []


def test_the_digest_of_the_lock_is_asked_for_and_no_other(crane, built, locked):
    [download] = release_of("epp", "linux/amd64")
    locked.write_text(f"{download.address}: sha256:{DIGEST}\n")
    assert lock.read_lock() == {download.address: DIGEST}
    assert obtain("epp") == []
    [asked] = (crane / "asked").read_text().splitlines()
    assert f"epp@sha256:{DIGEST}" in asked


def test_an_image_without_the_program_is_refused(crane, built):
    (crane / "image.tar").write_bytes(file_system(passwd=b"root"))
    [line] = obtain("epp")
    assert "registry.k8s.io/gateway-api-inference-extension/epp:v1.5.0: it has no epp" in line
    assert built == ["epp"]


def test_a_registry_that_refuses_is_named_with_the_last_line_of_crane(crane, built):
    (crane / "crane").write_text(
        '#!/bin/sh\ntest "$1" = version && echo v0.22.1 && exit\necho trying >&2\n'
        'echo "Error: MANIFEST_UNKNOWN" >&2\nexit 1\n'
    )
    [line] = obtain("epp")
    assert line.endswith("epp:v1.5.0: Error: MANIFEST_UNKNOWN")
    assert built == ["epp"]


def test_a_file_without_a_checksum_is_replaced_by_the_projects_image(crane, built):
    (crane / "image.tar").write_bytes(file_system(**{"usr/local/bin/kwok": b"official"}))
    assert obtain("kwok") == []
    assert find.tool("kwok").read_bytes() == b"official"
    assert built == []


def test_without_an_official_crane_an_image_is_not_read(mirror, platform, built):
    [line] = obtain("epp")
    assert "no crane to read images with: " in line
    assert line.endswith("checksums.txt answered 404")
    assert built == ["epp"]


def test_crane_itself_is_downloaded_first(mirror, platform, built):
    [download] = release_of("crane", platform)
    script = f"#!/bin/sh\ntest $1 = digest && echo sha256:{DIGEST}\nexit 0\n"
    mirror.publish(download, {"crane": script.encode()})
    [line] = obtain("epp")
    assert find.tool("crane").read_text() == script
    assert "epp:v1.5.0: " in line
    assert built == ["epp"]
