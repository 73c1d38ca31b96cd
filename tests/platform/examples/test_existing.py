"""A stack comes up on a network and a bucket that exist, and its destroy leaves them."""

import subprocess
from pathlib import Path

import pytest

from scripts.shared.engine import Engine
from scripts.shared.scratch_project import scratch_project
from tests.platform.examples.test_examples import copied, pulumi
from tests.shipped_stacks import EXAMPLES
from twin.world import store

pytestmark = pytest.mark.needs_tools

HOST, TENANT = "acme-network-host", "acme-inference-tenant"


def run(engine: Engine, project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the CLI on the stack `existing`."""
    return engine.run(
        *arguments, "-s", "existing", "--non-interactive", capture=True, project=project
    )


def there(engine: Engine, project: str) -> set[str]:
    """Return what the cloud has in a project, as `TYPE NAME`."""
    rows = store.list_resources(engine.paths)
    return {f"{row.type.rpartition(':')[2]} {row.name}" for row in rows if row.project == project}


@pytest.mark.soak  # test_previews.py previews the stack where its landing zone is missing
def test_a_stack_comes_up_on_what_exists_and_its_destroy_leaves_that(engine, tmp_path):
    zone = copied("existing-network/landing-zone", tmp_path)
    text = (EXAMPLES / "existing-network" / "Pulumi.existing.yaml").read_text()
    folder = tmp_path / "stack"
    folder.mkdir()
    project = scratch_project(folder, "existing", text)
    run(engine, project, "stack", "init")

    refused = run(engine, project, "up", "--yes", "--skip-preview")
    assert refused.returncode != 0
    said = refused.stdout + refused.stderr
    assert (
        'Error 400: Project "acme-network-host" has no network named "shared"., badRequest' in said
    )
    assert "Cluster acme-existing" not in there(engine, TENANT)

    pulumi(engine, zone, "stack", "init", "zone")
    pulumi(engine, zone, "up", "--yes", "--skip-preview")
    given = {"host": there(engine, HOST), "bucket": "Bucket acme-weights-us-central1"}
    assert {"Network shared", "Subnetwork inference", "Subnetwork proxies"} <= given["host"]
    made = run(engine, project, "up", "--yes", "--skip-preview")
    assert made.returncode == 0, made.stdout + made.stderr
    assert "Cluster acme-existing-us-central1" in there(engine, TENANT)
    assert there(engine, HOST) == given["host"]

    gone = run(engine, project, "destroy", "--yes", "--skip-preview")
    assert gone.returncode == 0, gone.stdout + gone.stderr
    assert there(engine, HOST) == given["host"]
    left = {each for each in there(engine, TENANT) if not each.startswith("Service ")}
    assert left == {given["bucket"]}
    pulumi(engine, zone, "destroy", "--yes", "--skip-preview")
    assert there(engine, HOST) == set()
