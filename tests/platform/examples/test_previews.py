"""Examples that no short test deploys, previewed with the real engine and the twin's providers."""

import json
from collections import Counter

import pytest

from scripts.shared.platform_state import write_state
from scripts.shared.scratch_project import backend, scratch_project
from tests.contract.infra.test_example_resources import ABOUT, file_of

pytestmark = pytest.mark.needs_tools

SAMPLE = ("existing-network/existing", "internal-front", "lustre-adapters")
"""What is there already, a fleet, and a file system that is not Filestore.

tests/preview previews `prod`, which has several regions.
"""
DEPLOYED = {"batch", "personalized-images", "ray"}
"""Examples that a short test deploys."""


@pytest.mark.parametrize(
    "name",
    [
        # tests/contract/infra has the resources and invariants of every example
        pytest.param(name, marks=() if name in SAMPLE else pytest.mark.soak)
        for name in ABOUT
        if name not in DEPLOYED
    ],
)
def test_an_example_previews_with_what_it_is_about(engine, tmp_path, name):
    stack, text = name.rpartition("/")[2], file_of(name).read_text()
    project = scratch_project(tmp_path, stack, text)
    words = ("-s", stack, "--non-interactive")
    write_state(tmp_path / "state", stack)
    ran = engine.run(
        "preview", "--json", *words, capture=True, environment=backend(tmp_path), project=project
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    made = Counter(
        step["urn"].split("::")[2].rpartition(":")[2]
        for step in json.loads(ran.stdout)["steps"]
        if step["op"] == "create"
    )
    assert {kind: made[kind] for kind in ABOUT[name]} == ABOUT[name]
