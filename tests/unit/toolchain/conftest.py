import pytest

from tests.unit.toolchain.mirror import Mirror
from twin.toolchain import find, install, lock, network
from twin.toolchain.registry import modules
from twin.toolchain.sources import downloads


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Return an empty cache, with nothing on PATH that replaces its tools."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("GKE_INFERENCE_TOOLS", str(folder))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv(network.FROM_VARIABLE, raising=False)
    monkeypatch.delenv(network.MIRROR_VARIABLE, raising=False)
    monkeypatch.setattr(network, "_PAUSE_SECONDS", 0.0)
    find.official.cache_clear()
    network.forget_probes()
    yield folder
    find.official.cache_clear()
    network.forget_probes()


@pytest.fixture
def locked(tmp_path, monkeypatch):
    """Return a lock of the repository that a test may write: empty at first."""
    file = tmp_path / "lock.yaml"
    file.write_text("")
    monkeypatch.setattr(lock, "LOCK", file)
    return file


@pytest.fixture
def mirror(cache, locked, monkeypatch):
    serving = Mirror()
    monkeypatch.setenv(network.MIRROR_VARIABLE, serving.url)
    yield serving
    serving.close()


@pytest.fixture
def platform(monkeypatch):
    """Play a machine with a platform for which every project publishes binaries."""
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    return "linux/amd64"


@pytest.fixture
def built(monkeypatch):
    """Return the names of the modules that were built from source; the build writes stand-ins."""
    names = []

    def build(go, module, target, announce):
        names.append(module.name)
        for program in module.programs:
            (target / program).write_text("#!/bin/sh\necho from source\n")

    def share(go, module, target):
        for folder in module.share:
            (target / folder).mkdir(parents=True)

    monkeypatch.setattr(install, "find_go", lambda announce: "/go")
    monkeypatch.setattr(install, "build", build)
    monkeypatch.setattr(install, "copy_shared", share)
    return names


def release_of(name, platform, number=0):
    """Return the downloads of one release of a module."""
    return list(downloads(modules()[name], platform))[number]
