"""Previews with the real engine, of stacks that work and of stacks that do not."""

import filecmp

import pytest

from infra.reading.load import stack_names
from policies.objects.documents import sources
from scripts.check.render import write
from scripts.check.server_side_checks import check_folder
from scripts.shared.platform_state import write_state
from scripts.shared.preview_states import preview_states
from scripts.shared.scratch_project import backend, scratch_project
from tests.contract.infra.broken_stacks import broken_stacks
from twin.cluster import lifecycle as clusters
from twin.host.paths import REPOSITORY
from twin.world import store

pytestmark = pytest.mark.needs_tools

SAMPLE = "rung-too-small-for-the-model"
"""A rule of several fields; tests/contract/infra has the message of every one."""


WRONG = ("whenUnsatisfyable", "ipCidrRagne")


def file_of(stack):
    return REPOSITORY / "stacks" / f"Pulumi.{stack}.yaml"


BEFORE = {stack: file_of(stack).read_bytes() for stack in stack_names()}


@pytest.mark.parametrize(
    "stack",
    [
        # `dev` and `prod` have every kind of resource of this one
        pytest.param(name, marks=pytest.mark.soak if name == "staging" else ())
        for name in stack_names()
    ],
)
def test_a_stack_previews_with_the_policies_and_its_file_stays_as_it_was(states, stack):
    assert states(stack)  # the preview fails if a mandatory policy is violated
    assert file_of(stack).read_bytes() == BEFORE[stack]


@pytest.mark.soak  # the next test finds nothing else in `prod`, which has every kind
@pytest.mark.parametrize("stack", stack_names())
def test_every_object_of_a_stack_passes_the_strict_checks(states, stack, tmp_path):
    objects, resources = write(states(stack), tmp_path)
    assert objects > 30
    assert resources > objects
    assert check_folder(tmp_path) == []
    assert sum(len(cluster.documents) for cluster in sources([tmp_path])) == objects


def test_wrong_fields_in_rendered_files_are_found_and_nothing_else(states, tmp_path):
    objects, resources = write(states("prod"), tmp_path)
    assert objects > 30
    assert resources > objects
    assert sum(len(cluster.documents) for cluster in sources([tmp_path])) == objects
    file = next((tmp_path / "manifests").rglob("computeclass*.yaml"))
    file.write_text(file.read_text().replace("whenUnsatisfiable:", "whenUnsatisfyable:"))
    resources = tmp_path / "resources.json"
    resources.write_text(resources.read_text().replace('"ipCidrRange"', '"ipCidrRagne"', 1))
    problems = check_folder(tmp_path)
    found = [word for word in WRONG if any(word in problem for problem in problems)]
    assert found == list(WRONG)
    assert [each for each in problems if not any(word in each for word in WRONG)] == []


def test_prod_has_at_least_300_resources_in_three_regions(states):
    prod = states("prod")
    real = [state for state in prod if not state["type"].startswith(("pulumi:", "gke-inference:"))]
    assert len(real) >= 300
    regions = {
        state["inputs"]["location"]
        for state in prod
        if state["type"] == "gcp:container/cluster:Cluster"
    }
    assert len(regions) == 3


def test_two_renders_of_a_stack_are_the_same(engine, states, tmp_path):
    write(states("local"), tmp_path / "a")
    write(preview_states(engine, "local"), tmp_path / "b")
    compared = filecmp.dircmp(tmp_path / "a", tmp_path / "b")
    assert not compared.diff_files
    assert not compared.left_only
    names = [file.relative_to(tmp_path / "a") for file in (tmp_path / "a").rglob("*.*")]
    same, changed, missing = filecmp.cmpfiles(tmp_path / "a", tmp_path / "b", names, shallow=False)
    assert (changed, missing) == ([], [])
    assert len(same) == len([name for name in names if (tmp_path / "a" / name).is_file()])


@pytest.mark.parametrize(
    "broken", [one for one in broken_stacks() if one.name == SAMPLE], ids=lambda one: one.name
)
def test_a_broken_stack_is_one_message_without_a_traceback_and_changes_nothing(
    engine, broken, tmp_path
):
    project = scratch_project(tmp_path, "broken", broken.text())
    place = {"capture": True, "environment": backend(tmp_path), "project": project}
    write_state(tmp_path / "state", "broken")
    answer = engine.run(
        "up", "--yes", "--skip-preview", "-s", "broken", "--non-interactive", **place
    )
    output = answer.stdout + answer.stderr
    assert answer.returncode != 0
    # the CLI shows a message when it comes and again under this heading
    diagnostics = output.split("Diagnostics:")[1]
    assert diagnostics.count("error:") == 1, output
    assert broken.expect in diagnostics
    assert "Traceback" not in output
    assert store.list_resources(engine.paths) == []
    assert clusters.folders(engine.paths) == []
