"""The CI files are well formed and name targets, options and files that exist.

It does not prove that they run: that takes GitHub, GitLab and a Google Cloud project.
"""

import functools
import json
import os
import re
import subprocess

import pytest
import yaml
from typer.testing import CliRunner

from infra.reading.load import stack_names
from scripts.app import COMMANDS, build_app
from scripts.verdicts.markdown import MARKER
from twin.host.paths import REPOSITORY
from twin.toolchain import tool

WORKFLOWS = [
    *sorted((REPOSITORY / ".github" / "workflows").glob("*.yml")),
    *sorted((REPOSITORY / "docs/examples/ci/github").glob("*.yml")),
]
PIPELINES = [REPOSITORY / ".gitlab-ci.yml", REPOSITORY / "docs/examples/ci/gitlab/.gitlab-ci.yml"]
FILES = [*WORKFLOWS, *PIPELINES]
SOAK = REPOSITORY / "docs/examples/ci/github/soak.yml"
WITHOUT_CREDENTIALS = [
    REPOSITORY / ".github/workflows/pull-request.yml",
    REPOSITORY / ".github/workflows/verdict.yml",
    REPOSITORY / ".gitlab-ci.yml",
    SOAK,
]
MAKE = re.compile(r"(?:^|[\s;&|])make ([^\n;&|]+)")
PROGRAM = re.compile(r"gke-inference (\w+)([^\n|;&]*)")
TARGET = re.compile(r"^([^\s#:=][^:=#\n]*):(?!=)", re.MULTILINE)


def scripts_in(node):
    """Yield every text that a shell runs, wherever it stands."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in {"run", "script", "before_script", "after_script"}:
                yield from [value] if isinstance(value, str) else [str(line) for line in value]
            else:
                yield from scripts_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from scripts_in(value)


def shell_of(file):
    return "\n".join(scripts_in(yaml.safe_load(file.read_text())))


def targets():
    text = (REPOSITORY / "Makefile").read_text()
    found = {name for line in TARGET.findall(text) for name in line.split()}
    return {".venv/.ready" if name == "$(READY)" else name for name in found}


@functools.cache
def options(command, *subcommand):
    plain = {"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"}
    words = [command, *subcommand, "--help"]
    answer = CliRunner().invoke(build_app((command,)), words, env=plain)
    assert answer.exit_code == 0
    return set(re.findall(r"--[a-z][a-z-]+", answer.stdout))


def test_the_targets_of_the_makefile_are_read():
    assert {"up", "down", "test", "lint", "preview", ".venv/.ready"} <= targets()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_make_target_exists(file):
    words = [word for line in MAKE.findall(shell_of(file)) for word in line.split()]
    asked = [word for word in words if "=" not in word and not word.startswith("-")]
    unknown = [word for word in asked if word not in targets()]
    assert unknown == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_subcommand_and_option_exists(file):
    for command, rest in PROGRAM.findall(shell_of(file)):
        assert command in COMMANDS
        has_subcommands = command in {"images", "kernels"}
        subcommand = rest.split()[:1] if has_subcommands else []
        assert set(re.findall(r"--[a-z][a-z-]+", rest)) <= options(command, *subcommand)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_stack_that_is_listed_exists(file):
    listed = re.findall(r"(?:stack|STACK): \[([^\]]+)\]", file.read_text())
    for names in listed:
        known = {*stack_names(), *stack_names(REPOSITORY / "docs" / "examples" / "teams")}
        assert {name.strip() for name in names.split(",")} <= known


@pytest.mark.needs_tools
def test_the_linter_of_github_finds_nothing_in_the_workflows():
    answer = subprocess.run(
        [tool("actionlint"), "-shellcheck=", "-pyflakes=", *map(str, WORKFLOWS)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_every_action_is_pinned_by_commit_with_its_release_beside_it(file):
    for line in file.read_text().splitlines():
        if "uses:" in line and "uses: ./" not in line:
            assert re.search(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


def test_one_action_has_one_commit():
    found = re.findall(r"uses: (\S+)@(\S+)", "\n".join(file.read_text() for file in WORKFLOWS))
    assert len(set(found)) == len({name for name, _ in found})


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_nothing_that_a_pull_request_says_becomes_part_of_a_command(file):
    assert not [text for text in scripts_in(yaml.safe_load(file.read_text())) if "${{" in text]


@pytest.mark.parametrize("file", WITHOUT_CREDENTIALS, ids=lambda file: file.name)
def test_what_forks_run_needs_no_credentials(file):
    text = file.read_text()
    assert "secrets." not in text
    assert "id-token" not in text
    assert "id_tokens" not in text
    if file.name != ".gitlab-ci.yml":
        assert yaml.safe_load(text)["permissions"] == {"contents": "read"}


@pytest.mark.parametrize(
    "file", sorted({*(REPOSITORY / "docs/examples/ci/github").glob("*.yml")} - {SOAK})
)
def test_what_has_credentials_takes_them_from_federation_in_an_environment(file):
    workflow = yaml.safe_load(file.read_text())
    jobs = list(workflow["jobs"].values())
    granted = [{**workflow, **job}["permissions"].get("id-token") == "write" for job in jobs]
    assert any(granted)
    for job, has_identity in zip(jobs, granted, strict=True):
        steps = [step.get("uses", "") for step in job.get("steps", [])]
        assert ("environment" in job) is has_identity
        assert any("google-github-actions/auth@" in step for step in steps) is has_identity
    assert "credentials_json" not in file.read_text()
    assert "pull_request_target" not in file.read_text()


def test_the_comment_is_posted_for_the_workflow_that_makes_it():
    folder = REPOSITORY / ".github" / "workflows"
    made = yaml.safe_load((folder / "verdict.yml").read_text())
    posted = yaml.safe_load((folder / "comment.yml").read_text())
    trigger = posted[True]["workflow_run"]  # YAML reads the key `on` as true
    assert trigger["workflows"] == [made["name"]]


@pytest.mark.parametrize("name", [".github/workflows/comment.yml", ".gitlab-ci.yml"])
def test_a_comment_is_found_by_the_marker_that_the_program_writes(name):
    assert MARKER in (REPOSITORY / name).read_text()


def test_both_systems_run_the_same_checks():
    github = "\n".join(shell_of(file) for file in WITHOUT_CREDENTIALS[:2])
    for shell in (github, shell_of(REPOSITORY / ".gitlab-ci.yml")):
        assert "make -j2 lint test" in shell
        assert re.search(r"gke-inference verdict --base \S+ --markdown", shell)


def test_both_systems_do_the_same_where_credentials_are():
    github = {file.stem for file in (REPOSITORY / "docs/examples/ci/github").glob("*.yml")}
    gitlab = set(yaml.safe_load(PIPELINES[1].read_text()))
    assert github == {"cloud-preview", "drift", "images", "layers", "soak", "up"}
    assert {"cloud-preview", "drift", "images", "soak", "up-dev", "up-staging", "up-prod"} <= gitlab
    assert {"up-platform", "up-serving"} <= gitlab


def test_the_parts_of_a_nightly_run_have_every_soak_test_once():
    on_github = yaml.safe_load(SOAK.read_text())["jobs"]["soak"]["strategy"]["matrix"]["include"]
    [on_gitlab] = yaml.safe_load(PIPELINES[1].read_text())["soak"]["parallel"]["matrix"]
    parts = [each["tests"] for each in on_github]
    assert parts == on_gitlab["TESTS"]
    # alone: make installs one environment for a part
    assert {"simulator/tests/running/engines", "tests/diffusion"} <= {*parts}
    folders = [folder for part in parts for folder in part.split()]
    tests = (
        REPOSITORY / each for each in ("tests", "bench/tests", "twin/tests", "simulator/tests")
    )
    files = [file for folder in tests for file in folder.rglob("test_*.py")]
    for file in files:
        if "mark.soak" in file.read_text():
            path = file.relative_to(REPOSITORY).as_posix()
            assert sum(path.startswith(f"{folder}/") for folder in folders) == 1, path


@pytest.mark.parametrize(
    ("tests", "installed"),
    [
        ("simulator/tests/running/engines", "sglang"),
        ("tests/diffusion", "diffusion"),
        ("tests/optimization", "optimization"),
        ("tests/optimization", "evaluation"),
        ("tests/pipelines", "pipelines"),
        ("tests/contract tests/soak", "checkov"),
        ("tests/xla tests/unit", "xla"),
    ],
)
def test_a_part_installs_what_its_tests_would_otherwise_be_skipped_without(tests, installed):
    argv = ["make", "-n", "-o", ".venv/.ready", "soak", f"TESTS={tests}"]
    shown = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    assert f"tools --with {installed}\n" in shown


def steps_in(name, job):
    return yaml.safe_load((REPOSITORY / name).read_text())["jobs"][job]["steps"]


def test_the_verdict_on_github_is_on_the_commit_that_the_comment_is_posted_for():
    [checkout] = [
        step
        for step in steps_in(".github/workflows/verdict.yml", "verdict")
        if "checkout@" in step.get("uses", "")
    ]
    assert checkout["with"]["ref"] == "${{ github.event.pull_request.head.sha }}"


@pytest.mark.parametrize("left", ["nothing", "no text", "a link", "a linked number", "a verdict"])
def test_only_a_verdict_that_is_there_and_no_link_is_posted(left, tmp_path):
    [fetched, posting] = steps_in(".github/workflows/comment.yml", "comment")
    assert fetched["continue-on-error"] is True
    secret, calls, gh = tmp_path / "secret", tmp_path / "calls", tmp_path / "gh"
    secret.write_text("1\n")
    gh.write_text(
        '#!/bin/sh\necho "$@" >> "$CALLS"\ncase "$*" in *pulls/*) echo "$HEAD_SHA";; esac\n'
    )
    gh.chmod(0o755)
    if left != "nothing":
        folder = tmp_path / fetched["with"]["path"]
        folder.mkdir()
        (folder / "number").write_text("7\n")
        if left in {"a linked number", "a verdict"}:
            (folder / "body.md").write_text(f"{MARKER}\nfound\n")
        if left.startswith("a link"):
            file = folder / ("body.md" if left == "a link" else "number")
            file.unlink(missing_ok=True)
            file.symlink_to(secret)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS": str(calls)}
    environment = {**path, "HEAD_SHA": "abc", "GH_REPO": "o/r"}
    answer = subprocess.run(
        ["bash", "-e", "-c", posting["run"]],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    said = calls.read_text() if calls.exists() else ""
    assert ("repos/o/r/issues/7/comments -F body=@comment.md" in said) is (left == "a verdict")
    assert bool(said) is (left == "a verdict")


def test_the_job_of_gitlab_that_runs_the_change_has_no_token():
    pipeline = yaml.safe_load(PIPELINES[0].read_text())
    token = "GKE_INFERENCE_COMMENT_TOKEN"
    has = [name for name, body in pipeline.items() if token in yaml.safe_dump(body)]
    assert has == ["comment"]
    comment = pipeline["comment"]
    assert comment["variables"]["GIT_STRATEGY"] == "none"
    assert ".venv" not in "".join(comment["script"])
    # its variable is of this environment only; a job without one has the variables of all
    assert comment["environment"]["name"] == "verdict-comment"
    assert "environment" not in pipeline["verdict"]
    assert "`verdict-comment`" in (REPOSITORY / "docs/verdict-in-ci.md").read_text()
    assert comment["rules"][0]["when"] == "always"  # a verdict that blocks is a job that failed


def test_the_caches_and_the_dev_container_use_the_list_of_tools():
    tools = {"twin/tools/modules.yaml", "twin/tools/lock.yaml"}
    assert all((REPOSITORY / file).exists() for file in tools)
    pipeline = yaml.safe_load((REPOSITORY / ".gitlab-ci.yml").read_text())
    assert set(pipeline["default"]["cache"]["key"]["files"]) == tools
    for file in ("pull-request.yml", "verdict.yml"):
        text = (REPOSITORY / ".github" / "workflows" / file).read_text()
        assert "hashFiles('twin/tools/**'" in text  # versions are in the go.mod beside the list
    text = (REPOSITORY / ".devcontainer" / "devcontainer.json").read_text()
    lines = [line for line in text.splitlines() if not line.strip().startswith("//")]
    container = json.loads("\n".join(lines))
    assert container["updateContentCommand"] == "make tools"
    folder = container["containerEnv"]["GKE_INFERENCE_TOOLS"]
    [mount] = container["mounts"]
    target = dict(part.split("=") for part in mount.split(","))["target"]
    assert folder.startswith(f"{target}/")
