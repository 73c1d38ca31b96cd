"""checkov reports nothing about the objects of a stack that has no reason in checkov.yaml.

The short form is tests/contract/policies/test_checkov.py, which checks the reasons without checkov.
"""

import json
import subprocess
from pathlib import Path

import pytest

from policies.benchmark.findings import Finding, explained, idle, stack, unexplained
from scripts.check.checkov_environment import CHECKOV
from scripts.check.render import write
from scripts.shared.engine import Engine
from scripts.shared.preview_states import preview_states
from twin import daemon
from twin.host.paths import TwinPaths

pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(900)]

OBJECTS_AT_LEAST = 100


@pytest.fixture(scope="module")
def checkov() -> Path:
    if not CHECKOV.is_installed:
        pytest.skip(CHECKOV.hint)
    return CHECKOV.folder / "bin" / "checkov"


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the objects of the stack, by cluster."""
    folder = tmp_path_factory.mktemp("checkov")
    paths = TwinPaths(folder / "twin")
    try:
        write(preview_states(Engine(paths), stack()), folder)
    finally:
        daemon.shut_down(paths)
    return folder / "manifests"


def findings_in(checkov: Path, manifests: Path) -> set[Finding]:
    """Return what checkov finds; objects of several clusters that are alike are one finding."""
    python = checkov.with_name("python")  # its first line names the folder of the build
    command = [python, checkov, "-d", manifests, "--framework", "kubernetes", "-o", "json"]
    offline = ["--skip-download", "--compact", "--quiet"]
    ran = subprocess.run([*command, *offline], capture_output=True, text=True, check=False)
    assert ran.returncode in (0, 1), ran.stderr
    report = json.loads(ran.stdout)
    assert report["summary"]["parsing_errors"] == 0
    assert report["summary"]["resource_count"] >= OBJECTS_AT_LEAST
    return {
        Finding(each["check_id"], each["resource"]) for each in report["results"]["failed_checks"]
    }


def test_every_finding_about_prod_has_a_reason_and_every_reason_a_finding(
    checkov: Path, manifests: Path
) -> None:
    found = findings_in(checkov, manifests)
    assert unexplained(found, explained()) == []
    assert idle(found, explained()) == []


def test_an_object_that_runs_as_root_is_found(checkov: Path, tmp_path: Path) -> None:
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"pod-{number}", "namespace": "mine"},
            "spec": {"containers": [{"name": "it", "image": "example.com/it:1"}]},
        }
        for number in range(OBJECTS_AT_LEAST)
    ]
    (tmp_path / "pods.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": pods})
    )
    found = findings_in(checkov, tmp_path)
    assert Finding("CKV_K8S_40", "Pod.mine.pod-0") in unexplained(found, explained())
