"""The CI files name targets, options and files that exist. It does not prove that they run."""

import re
import subprocess
import sys

import pytest
import yaml

from scripts.engine import stack_names
from scripts.main import COMMANDS
from twin.paths import REPOSITORY

FILES = [
    *sorted((REPOSITORY / ".github" / "workflows").glob("*.yml")),
    REPOSITORY / ".gitlab-ci.yml",
]
MAKE = re.compile(r"(?:^|[\s;&|])make ([^\n;&|]+)")
PROGRAM = re.compile(r"gke-inference (\w+)([^\n|;&]*)")
TARGET = re.compile(r"^([^\s#:=][^:=#\n]*):(?!=)", re.MULTILINE)


def scripts_in(node):
    """Yield every text that a shell runs, wherever it stands."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in {"run", "script", "before_script"}:
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


def options(command):
    answer = subprocess.run(
        [sys.executable, "-m", "scripts.main", command, "--help"],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=True,
        env={"COLUMNS": "200", "TERM": "dumb", "PATH": "/usr/bin:/bin", "NO_COLOR": "1"},
    )  # fmt: skip
    return set(re.findall(r"--[a-z][a-z-]+", answer.stdout))


def test_the_targets_of_the_makefile_are_read():
    assert {"up", "down", "test", "lint", "preview", ".venv/.ready"} <= targets()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_make_target_exists(file):
    asked = [word for line in MAKE.findall(shell_of(file)) for word in line.split()]
    unknown = [word for word in asked if "=" not in word and word not in targets()]
    assert unknown == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_subcommand_and_option_exists(file):
    for command, rest in PROGRAM.findall(shell_of(file)):
        assert command in COMMANDS
        assert set(re.findall(r"--[a-z][a-z-]+", rest)) <= options(command)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_stack_that_is_listed_exists(file):
    listed = re.findall(r"(?:stack|STACK): \[([^\]]+)\]", file.read_text())
    for names in listed:
        assert {name.strip() for name in names.split(",")} <= set(stack_names())


def test_the_previews_of_a_pull_request_need_no_credentials():
    workflow = yaml.safe_load((REPOSITORY / ".github/workflows/pull-request.yml").read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets." not in (REPOSITORY / ".github/workflows/pull-request.yml").read_text()


def test_the_comment_is_posted_for_the_workflow_that_makes_it():
    folder = REPOSITORY / ".github" / "workflows"
    made = yaml.safe_load((folder / "pull-request.yml").read_text())
    posted = yaml.safe_load((folder / "comment.yml").read_text())
    trigger = posted[True]["workflow_run"]  # YAML reads the key `on` as true
    assert trigger["workflows"] == [made["name"]]


def test_both_systems_run_the_same_checks():
    for file in (REPOSITORY / ".github/workflows/pull-request.yml", REPOSITORY / ".gitlab-ci.yml"):
        assert "make lint test" in shell_of(file)
        assert "--comment" in shell_of(file)
