import re
import shutil

import pytest

from twin import toolchain
from twin.toolchain import cache, find, registry


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GKE_INFERENCE_TOOLS", str(tmp_path))
    find.official.cache_clear()
    yield tmp_path
    find.official.cache_clear()


def test_every_module_says_its_version_once_in_its_go_mod():
    versions = {name: module.version for name, module in toolchain.modules().items()}
    assert versions["kubernetes"] == "v1.36.3"
    assert versions["epp"] == "v1.5.0"
    assert versions["kube-state-metrics"] == "v2.15.0"
    assert versions["pulumi"] == "v3.250.0"
    assert all(version.startswith("v") for version in versions.values())


def test_every_program_of_the_control_plane_belongs_to_one_module():
    programs = [name for module in toolchain.modules().values() for name in module.programs]
    assert len(programs) == len(set(programs))
    assert {"kube-apiserver", "kubectl", "etcd", "kwok", "epp", "body-router"} <= set(programs)


def test_a_tool_that_is_not_built_names_the_command_that_builds_it(empty_cache):
    with pytest.raises(
        toolchain.ToolError, match="etcd is not installed: run `gke-inference tools --only etcd`"
    ):
        toolchain.tool("etcd")


def test_an_unknown_tool_is_refused():
    with pytest.raises(toolchain.ToolError, match="no tool named etdc"):
        toolchain.tool("etdc")


def test_everything_is_missing_from_an_empty_cache(empty_cache, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert {module.name for module in toolchain.missing(toolchain.modules().values())} == set(
        toolchain.modules()
    )


def test_a_built_module_is_found_by_the_hash_of_its_sources(empty_cache):
    module = toolchain.modules()["kwok"]
    (empty_cache / module.key / "bin").mkdir(parents=True)
    (empty_cache / module.key / ".complete").touch()
    assert toolchain.tool("kwok") == empty_cache / module.key / "bin" / "kwok"
    assert toolchain.share("kwok/stages/pod/general").is_relative_to(empty_cache)


@pytest.mark.parametrize(
    ("name", "file"),
    [("kwok", "kwok/go.sum"), ("valkey", "valkey/main.go"), ("valkey", "owncallers/listener.go")],
)
def test_a_change_of_a_source_changes_the_key(tmp_path, monkeypatch, name, file):
    copied = tmp_path / "tools"
    shutil.copytree(toolchain.MODULES, copied)
    original = toolchain.Module(name, toolchain.recipe()["modules"][name]).key
    monkeypatch.setattr(registry, "MODULES", copied)
    same = toolchain.Module(name, toolchain.recipe()["modules"][name]).key
    with (copied / file).open("a") as stream:
        stream.write("// changed\n")
    changed = toolchain.Module(name, toolchain.recipe()["modules"][name]).key
    assert original == same
    assert changed != original


def test_a_module_names_the_folders_that_its_go_mod_takes_packages_from():
    taken: dict[str, list[str]] = {}
    for name, module in toolchain.modules().items():
        found = re.findall(
            r"^replace \S+ => \.\./(\S+)$", (module.folder / "go.mod").read_text(), re.M
        )
        if found or "with" in module.spec:
            taken[name] = found
            assert module.spec.get("with") == found, name
    assert set(taken) == {"fake-gcs-server", "kafka", "pubsub", "valkey"}


def test_an_official_cli_stands_in_only_when_it_is_new_enough(empty_cache, monkeypatch):
    folder = empty_cache / "path"
    folder.mkdir()
    cli = folder / "pulumi"
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    # tools of the cache are never taken for official ones
    monkeypatch.setenv("GKE_INFERENCE_TOOLS", str(empty_cache / "cache"))
    for version, found in (("v3.1.0", None), ("v3.250.0", cli), ("v3.300.1", cli)):
        cli.write_text(f"#!/bin/sh\necho {version}\n")
        cli.chmod(0o755)
        find.official.cache_clear()
        assert toolchain.official("pulumi") == found


@pytest.mark.parametrize(
    ("folder", "rule"),
    [
        ("tools", "must be an absolute path, got 'tools'"),
        ("{file}/tools", "must be a folder, got '{file}/tools': {file} is a file"),
    ],
)
def test_a_cache_that_cannot_be_one_is_refused_before_anything_is_obtained(
    empty_cache, monkeypatch, folder, rule
):
    file = empty_cache / "file"
    file.write_text("")
    monkeypatch.setenv("GKE_INFERENCE_TOOLS", folder.format(file=file))
    with pytest.raises(toolchain.ToolError) as refused:
        toolchain.provide(toolchain.named(["etcd"]))
    assert str(refused.value) == f"GKE_INFERENCE_TOOLS: {rule.format(file=file)}"


def test_a_cache_in_a_read_only_home_is_refused_with_what_to_do(empty_cache, monkeypatch):
    monkeypatch.delenv("GKE_INFERENCE_TOOLS")
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    with pytest.raises(toolchain.ToolError) as refused:
        toolchain.provide(toolchain.named(["etcd"]))
    assert str(refused.value) == (
        "the folder of tools /proc/none/gke-inference/tools cannot be created: No such file or"
        " directory. Set GKE_INFERENCE_TOOLS to a folder that you can write to"
    )


def test_a_full_disk_is_refused_before_anything_is_built(empty_cache, monkeypatch):
    free = shutil.disk_usage("/")._replace(free=8 * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    with pytest.raises(toolchain.ToolError) as refused:
        toolchain.provide(toolchain.named(["etcd"]))
    assert str(refused.value) == (
        f"the folder of tools {cache.cache_root()} must have 0.25 GiB free, got 0.01. Free space,"
        " or set GKE_INFERENCE_TOOLS to a folder on a larger disk"
    )


def test_a_cache_that_cannot_be_created_is_refused_with_the_reason(empty_cache, monkeypatch):
    monkeypatch.setenv("GKE_INFERENCE_TOOLS", "/proc/none")
    with pytest.raises(toolchain.ToolError) as refused, cache.locked("x"):
        pass
    assert str(refused.value) == (
        "GKE_INFERENCE_TOOLS: must be a folder that can be created, got '/proc/none': "
        "No such file or directory"
    )
