"""The scripts of docs/examples/ci in a plain shell: Pulumi's own home, and an unchanged PATH.

Plugins and cloud are stand-ins: a language host and providers in that home, `gcloud` and the login
to a bucket that only leave a line. GitHub runs `pulumi/actions`: its inputs become a command here.
"""

import os
import shlex
import subprocess
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from tests.preview.test_official import HOST, stand_in
from twin.host.paths import REPOSITORY
from twin.pulumi.wrappers import link_cli

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(900)]
CI = REPOSITORY / "docs" / "examples" / "ci"
STACK = "dev"


def gitlab(job):
    """Return the shell lines of a job of GitLab, those before its script first."""
    jobs = yaml.safe_load((CI / "gitlab" / ".gitlab-ci.yml").read_text())
    return [*jobs[".cloud"]["before_script"], *jobs[job]["script"]]


def github(workflow, job):
    """Return the shell lines of a job of GitHub; `pulumi/actions` as the command it runs."""
    steps = yaml.safe_load((CI / "github" / workflow).read_text())["jobs"][job]["steps"]
    lines = []
    for step in steps:
        if "run" in step:
            lines.append(step["run"])
        elif "pulumi/actions@" in step["uses"]:
            lines.append(command_of(step["with"]))
    return lines


def command_of(inputs):
    """Return the command of `pulumi/actions` with some inputs."""
    flags = ["--policy-pack", inputs["policyPacks"]] if "policyPacks" in inputs else []
    flags += [f"--{name}" for name in ("diff", "expect-no-changes", "refresh") if inputs.get(name)]
    flags += ["--yes"] if inputs["command"] == "up" else []
    return f'pulumi {inputs["command"]} --stack "$STACK" {shlex.join(flags)} --non-interactive'


def script(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    """A machine of CI after its set-up: a home with Pulumi in it, and a stack in a bucket."""
    folder = tmp_path_factory.mktemp("ci")
    home, marks, state = folder / "home", folder / "marks", folder / "state"
    pulumi = home / ".pulumi"
    for each in (marks, state):
        each.mkdir()
    stand_in(pulumi / "bin" / HOST, HOST, marks, "tests.preview.stand_in_host")
    link_cli(pulumi / "bin")
    for name in ("gcp", "kubernetes"):
        plugin = pulumi / "plugins" / f"resource-{name}-v{version(f'pulumi-{name}')}"
        module = f"tests.preview.stand_in_provider {name}"
        stand_in(plugin / f"pulumi-resource-{name}", name, marks, module)
    calls = folder / "calls"
    script(folder / "bin" / "gcloud", f'echo "gcloud $*" >> {calls}')
    script(
        folder / "bin" / "pulumi",
        f'[ "$1" = login ] && echo "pulumi $*" >> {calls} && exit\n'
        f'exec {pulumi / "bin" / "pulumi"} "$@"',
    )
    environment = {
        "GKE_INFERENCE_IDENTITY_PROVIDER": "providers/ci",
        "GKE_INFERENCE_SERVICE_ACCOUNT": "deploy@acme.iam.gserviceaccount.com",
        "GKE_INFERENCE_STATE_BUCKET": "acme-state",
        "GKE_INFERENCE_UNBUILT_IMAGES": "accept",  # a project has its images before its first job
        "GKE_INFERENCE_TWIN_DIR": str(folder / "twin"),  # of the stand-ins
        "GOOGLE_ID_TOKEN": "token",
        "HOME": str(home),
        "PATH": f"{folder / 'bin'}:{pulumi / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "PULUMI_BACKEND_URL": f"file://{state}",
        "PULUMI_CONFIG_PASSPHRASE": "",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_HOME": str(pulumi),  # the CLI may take its user's from the password file
        # an update would preview the stack first, as a test of its own does
        "PULUMI_OPTION_SKIP_PREVIEW": "true",
        "PULUMI_SKIP_UPDATE_CHECK": "1",
        "STACK": STACK,
    }

    def run(lines):
        """Run the lines of a job and return what they printed."""
        text = "\n".join(lines).replace("/tmp/", f"{folder}/")
        answer = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", text],
            cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer.stdout + answer.stderr

    def started():
        """Return the stand-ins that were started since this was asked last."""
        names = sorted(mark.name for mark in marks.iterdir())
        for name in names:
            (marks / name).unlink()
        return names

    run([f"pulumi stack init {STACK} --non-interactive --no-select"])
    return SimpleNamespace(run=run, started=started, calls=calls, environment=environment)


@pytest.mark.parametrize(
    ("job", "workflow"),
    [
        (gitlab("cloud-preview"), github("cloud-preview.yml", "preview")),
        (gitlab("drift"), github("drift.yml", "drift")),
    ],
    ids=["preview", "drift"],
)
def test_both_systems_run_the_same_command(job, workflow):
    assert sorted(shlex.split(workflow[-1])) == sorted(shlex.split(job[-1]))


def test_nothing_of_this_project_is_on_the_path(shell):
    folders = [Path(folder) for folder in shell.environment["PATH"].split(os.pathsep)]
    assert not [each for each in folders if each.is_relative_to(REPOSITORY)]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(gitlab("cloud-preview"), id="gitlab"),
        # the command is the same, as the test above says
        pytest.param(github("cloud-preview.yml", "preview"), id="github", marks=pytest.mark.soak),
    ],
)
def test_a_preview_creates_a_stack_with_its_policies_and_plugins_from_pulumis_home(shell, lines):
    shell.started()
    text = shell.run(lines)
    assert "to create" in text
    assert "Policy Packs run:" in text
    assert "unable to detect a global setting for GCP Project" not in text
    assert shell.started() == ["gcp", "kubernetes", HOST]


@pytest.mark.soak  # its commands are those of the preview but the last
def test_gitlab_logs_in_with_the_identity_of_its_job(shell):
    shell.run(gitlab("cloud-preview")[:-1])
    calls = shell.calls.read_text()
    assert "gcloud auth login --brief --cred-file=" in calls
    assert "pulumi login gs://acme-state" in calls


# both run one command, as a test above says; tests/platform/whole refreshes after `up`
@pytest.mark.soak
@pytest.mark.parametrize(
    "drift", [gitlab("drift"), github("drift.yml", "drift")], ids=["gitlab", "github"]
)
def test_an_update_leaves_a_stack_without_drift(shell, drift):
    # the check of the project asks Google itself, which has no stand-in here
    up = [line for line in gitlab(".up") if "preflight --on cloud" not in line]
    assert len(up) == len(gitlab(".up")) - 1
    assert "created" in shell.run(up)
    assert "to create" not in shell.run(drift)
