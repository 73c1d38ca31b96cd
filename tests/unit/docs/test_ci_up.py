"""The CI files that deploy do so after the tests, in order, and only what a change is part of.

GitHub's answers are written here, and its rules for what runs when a job is cut off are not tried.
"""

import fnmatch
import functools
import json
import os
import re
import shutil
import subprocess

import pytest
import yaml

from infra.reading.load import stack_names
from scripts.verdicts.checkouts import ASIDE, touches
from tests.unit.docs.test_ci_files import PIPELINES, WORKFLOWS, steps_in
from twin.host.paths import REPOSITORY


@functools.cache
def tracked():
    """Return the files of the repository."""
    command = ["git", "-C", str(REPOSITORY), "ls-files"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return answer.stdout.splitlines()


UP = "docs/examples/ci/github/up.yml"


def test_what_is_deployed_has_passed_the_tests_and_goes_from_stack_to_stack():
    workflow = yaml.safe_load((REPOSITORY / UP).read_text())
    tests = yaml.safe_load((REPOSITORY / ".github/workflows/pull-request.yml").read_text())
    assert workflow[True]["push"]["branches"] == ["main"]
    jobs = workflow["jobs"]
    assert jobs["test"]["uses"] == "./.github/workflows/pull-request.yml"
    assert jobs["test"]["if"] == "github.event_name == 'push'"
    assert "workflow_call" in tests[True]
    order = [name for name in jobs if name.startswith("up-")]
    assert order == ["up-dev", "up-staging", "up-prod"]
    for at, name in enumerate(order):
        job, stack = jobs[name], jobs[name]["env"]["STACK"]
        assert stack in stack_names()
        assert (name, job["environment"]) == (f"up-{stack}", stack)
        assert job["concurrency"] == {"group": name, "cancel-in-progress": False}
        # a stack that is not touched is skipped and holds up none; one that failed does, and one
        # that timed out or gave way, which is a failure of neither a job nor the run
        assert job["needs"] == ["test", "stacks", *order[:at]]
        passed = "!cancelled() && !failure() && !contains(needs.*.result, 'cancelled')"
        touched = f"contains(fromJSON(needs.stacks.outputs.touched), '{stack}')"
        assert job["if"] == f"${{{{ {passed} && {touched} }}}}"


def test_a_push_does_not_cut_off_the_tests_of_the_one_before():
    tests = yaml.safe_load((REPOSITORY / ".github/workflows/pull-request.yml").read_text())
    # called by up.yml it has that run's event and branch, so all pushes to main are one group
    only = "${{ github.event_name == 'pull_request' }}"
    assert tests["concurrency"]["cancel-in-progress"] == only


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_only_the_workflow_that_deploys_a_stack_names_its_environment(file):
    named = set()
    for job in yaml.safe_load(file.read_text())["jobs"].values():
        where = job.get("environment", "")
        text = where["name"] if isinstance(where, dict) else where
        named |= {re.sub(r"\$\{\{.*?\}\}", stack, text) for stack in stack_names()}
    stacks = {"dev", "staging", "prod"} if file == REPOSITORY / UP else set()
    assert named & set(stack_names()) == stacks


@pytest.mark.parametrize("name", ["cloud-preview", "drift", "images"])
def test_every_environment_to_create_is_named_where_the_file_and_the_docs_explain_it(name):
    file = REPOSITORY / f"docs/examples/ci/github/{name}.yml"
    [job] = yaml.safe_load(file.read_text())["jobs"].values()
    environment = re.sub(r"\$\{\{.*?\}\}", "STACK", job["environment"])
    assert f"`{environment}`" in (REPOSITORY / "docs/verdict-in-ci.md").read_text()


def test_a_push_that_touches_no_stack_deploys_nothing():
    ignored = yaml.safe_load((REPOSITORY / UP).read_text())[True]["push"]["paths-ignore"]
    folders = [each.removesuffix("**") for each in ignored if each.endswith("/**")]
    assert sorted(folders) == sorted(ASIDE)
    others = [each for each in ignored if not each.endswith("/**")]
    for name in tracked():
        if "/" not in name:
            is_ignored = any(fnmatch.fnmatchcase(name, each) for each in others)
            assert is_ignored is not touches("dev", [name]), name


# Answers as GitHub does, through the expression that it is called with: `last: N` of a stack's
# deployments, oldest first, or the runs of the workflow.
GH = r"""#!/bin/sh
for each; do
  case "$each" in
    stack=*) file=${each#stack=} ;;
    repos/o/r/actions/workflows/up.yml/runs*) file=runs ;;
  esac
  if [ "$before" = --jq ]; then expression=$each; fi
  before=$each
done
cut=.
if [ "$file" != runs ]; then
  asked='last: \([0-9]*\), orderBy: {field: CREATED_AT, direction: ASC}'
  count=$(printf '%s' "$*" | sed -n "s/.*$asked.*/\1/p")
  cut=".data.repository.deployments.nodes |= .[-${count:?}:]"
fi
jq "$cut" "$file.json" | jq -r "$expression"
"""
ALL = ["dev", "staging", "prod"]


def deployments(folder, states):
    """Return deployments of a repository's commits, one of each state; its last commit has none."""
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run([*git, "init", "-q"], check=True)
    for at in range(len(states) + 1):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", str(at)], check=True)
    log = subprocess.run([*git, "rev-list", "--reverse", "HEAD"], check=True, capture_output=True)
    return [
        {"commitOid": "0" * 40, "state": "ACTIVE"}
        if state == "elsewhere"
        else {"commitOid": sha, "state": state}
        for sha, state in zip(log.stdout.decode().split(), states, strict=False)
    ]


def touched_stacks(folder, event="push", states=("ACTIVE",), said="nothing", others=()):
    """Return the stacks that up.yml deploys one commit after deployments with these states."""
    [script] = [each["run"] for each in steps_in(UP, "stacks") if each.get("id") == "touched"]
    nodes = deployments(folder, states)
    answer = {"data": {"repository": {"deployments": {"nodes": nodes}}}}
    runs = [(7, "in_progress"), (6, "completed"), *((5 - at, s) for at, s in enumerate(others))]
    listed = {"workflow_runs": [{"id": number, "status": status} for number, status in runs]}
    for name, body in {**dict.fromkeys(ALL, answer), "runs": listed}.items():
        (folder / f"{name}.json").write_text(json.dumps(body))
    answers = {"the stack": 'echo "$5"', "nothing": ":", "only prod": 'echo "$5" | grep prod || :'}
    since = nodes[-1]["commitOid"] if nodes else ""
    asked = f'#!/bin/sh\n[ "$*" = "touched --since {since} --stack $5" ] || exit 1\n'
    for name, body in {"gh": GH, ".venv/bin/gke-inference": asked + answers[said]}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(body)
        file.chmod(0o755)
    environment = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_EVENT_NAME": event,
        "GITHUB_RUN_ID": "7",
    }
    subprocess.run(["bash", "-e", "-c", script], cwd=folder, env=environment, check=True)
    return json.loads((folder / "output").read_text().removeprefix("touched="))


needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="jq stands in for that of gh")


@needs_jq
@pytest.mark.parametrize(
    ("event", "states", "said", "found"),
    [
        ("push", ["ACTIVE"], "the stack", ALL),
        ("push", ["ACTIVE"], "nothing", []),
        ("push", ["ACTIVE"], "only prod", ["prod"]),
        ("push", ["INACTIVE", "FAILURE", "ACTIVE"], "nothing", []),
        ("push", ["ACTIVE", "FAILURE"], "nothing", ALL),
        ("push", ["ACTIVE", "IN_PROGRESS"], "nothing", ALL),
        ("push", ["ACTIVE", "WAITING"], "nothing", ALL),
        ("push", [], "nothing", ALL),
        ("push", ["elsewhere"], "nothing", ALL),
        ("workflow_dispatch", ["ACTIVE"], "nothing", ALL),
    ],
)
def test_a_stack_is_deployed_where_its_files_changed_since_a_last_deployment_that_stands(
    event, states, said, found, tmp_path
):
    assert touched_stacks(tmp_path, event=event, states=states, said=said) == found


@needs_jq
@pytest.mark.parametrize(
    ("others", "found"),
    [
        (["completed"], []),
        (["in_progress"], ALL),
        (["completed", "waiting"], ALL),
        (["queued"], ALL),
    ],
)
def test_every_stack_is_deployed_while_another_run_is_not_through(others, found, tmp_path):
    assert touched_stacks(tmp_path, others=others) == found


def test_what_finds_the_last_deployment_may_read_deployments_and_runs():
    job = yaml.safe_load((REPOSITORY / UP).read_text())["jobs"]["stacks"]
    assert job["permissions"] == {"actions": "read", "contents": "read", "deployments": "read"}


def test_gitlab_deploys_what_passed_the_tests_and_from_stack_to_stack():
    pipeline = yaml.safe_load(PIPELINES[1].read_text())
    assert "rules" not in yaml.safe_load(PIPELINES[0].read_text())["test"]  # in every pipeline
    for at, stack in enumerate(ALL):
        # an optional job that is absent is no need at all: each must name all that go before it
        before = [{"job": f"up-{each}", "optional": True} for each in ALL[:at]]
        assert pipeline[f"up-{stack}"]["needs"] == [{"job": "test"}, *before]


@pytest.mark.parametrize("stack", ALL)
def test_gitlab_deploys_a_stack_where_a_file_that_it_is_made_of_changes(stack):
    rules = yaml.safe_load(PIPELINES[1].read_text())[f"up-{stack}"]["rules"]
    patterns = rules[0]["changes"]
    for name in tracked():
        # `*` of fnmatch takes slashes along, as `**/*` does in GitLab
        is_listed = any(fnmatch.fnmatchcase(name, each.replace("**/*", "*")) for each in patterns)
        assert is_listed is touches(stack, [name]), name


def test_the_docs_list_what_no_stack_is_made_of():
    text = (REPOSITORY / "docs/verdict.md").read_text()
    for name in [*ASIDE, *(name for name in tracked() if "/" not in name and name[-3:] != ".md")]:
        is_aside = not touches("dev", [name + "a" * name.endswith("/")])
        assert (f"`{name}`" in text) or not is_aside, name
