"""Folders out of Go modules, with a stand-in for Go."""

import json

import pytest

from twin.toolchain.gomodules import copy_shared
from twin.toolchain.registry import ToolError, modules

CRDS = "config/crd/standard"


@pytest.fixture
def go(tmp_path):
    """Return a stand-in for Go that answers `go mod download -json` as a test says."""
    program, answer = tmp_path / "go", tmp_path / "answer.json"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\ncat {answer}\n')
    program.chmod(0o755)
    sources = tmp_path / "sources"
    (sources / CRDS).mkdir(parents=True)
    (sources / CRDS / "gateways.yaml").write_text("kind: CustomResourceDefinition\n")
    (sources / CRDS / "gateways.yaml").chmod(0o444)

    def answers(**facts):
        answer.write_text(json.dumps({"Dir": str(sources), "Sum": checksum(), **facts}))
        return str(program)

    return answers


def checksum():
    lines = (modules()["crds"].folder / "go.sum").read_text().splitlines()
    [found] = [line for line in lines if line.startswith("sigs.k8s.io/gateway-api v1.6.0 ")]
    return found.split()[2]


def test_a_folder_is_copied_and_can_be_deleted_again(go, tmp_path):
    copy_shared(go(), modules()["crds"], tmp_path / "share")
    copied = tmp_path / "share" / "crds" / "gateway" / "gateways.yaml"
    assert copied.read_text() == "kind: CustomResourceDefinition\n"
    assert copied.stat().st_mode & 0o200
    asked = (tmp_path / "asked").read_text()
    assert asked == "mod download -json sigs.k8s.io/gateway-api@v1.6.0\n"


def test_other_sources_than_those_of_go_sum_are_refused(go, tmp_path):
    with pytest.raises(ToolError) as refused:
        copy_shared(go(Sum="h1:other"), modules()["crds"], tmp_path / "share")
    assert str(refused.value) == (
        f"sigs.k8s.io/gateway-api@v1.6.0: the checksum must be {checksum()} (crds/go.sum), "
        "got h1:other"
    )
    assert not (tmp_path / "share").exists()


def test_a_module_that_cannot_be_downloaded_names_the_reason(go, tmp_path):
    with pytest.raises(ToolError, match=r"gateway-api@v1\.6\.0: no such host"):
        copy_shared(go(Error="no such host"), modules()["crds"], tmp_path / "share")
