"""The hub's token is used, and shown to nobody."""

import base64
import logging
import traceback

import pytest

from tests.unit.models import tiny
from tests.unit.models.conftest import US
from workloads.engine.weights_manifest import MANIFEST_NAME, Manifest
from workloads.transfer import hub, job
from workloads.transfer.errors import Refused, TransferError
from workloads.transfer.versions import look, read_current

SECRET = "hf_NobodyMayReadThis123"


def test_a_token_does_not_show_itself():
    token = hub.Token(f"  {SECRET}\n")
    assert token.reveal() == SECRET
    assert (str(token), repr(token), f"{token}") == ("(token)",) * 3
    assert SECRET not in repr([token]) + repr({"token": token})


def test_an_error_of_the_hub_never_has_the_token(caplog, capsys):
    def fetch(repository, **options):
        raise OSError(f"401 for {repository} with Authorization: Bearer {options['token']}")

    with caplog.at_level(logging.DEBUG), pytest.raises(TransferError) as error:
        hub.download("acme/llama", "main", hub.Token(SECRET), None, fetch=fetch)
    assert str(error.value) == (
        "acme/llama cannot be read from the hub: "
        "401 for acme/llama with Authorization: Bearer (token)"
    )
    assert error.value.__suppress_context__
    shown = "".join(traceback.format_exception(error.value)) + caplog.text
    shown += "".join(capsys.readouterr())
    assert SECRET not in shown


def test_without_a_token_none_of_the_machine_is_sent(tmp_path):
    seen = {}

    def fetch(repository, **options):
        seen.update(options)
        return str(tmp_path)

    hub.download("acme/llama", "v2", None, tmp_path, ["*.pth"], fetch=fetch)
    assert seen["token"] is False
    assert (seen["revision"], seen["ignore_patterns"]) == ("v2", ["*.pth"])


@pytest.mark.parametrize("name", ["llama", "a/b/c", "acme/../etc", "acme/", "-a/b", ""])
def test_what_is_no_repository_is_refused(name):
    with pytest.raises(Refused, match=r"^--from-hub: must be ORGANIZATION/MODEL, got "):
        hub.check_repository(name)


def test_the_token_of_the_environment_is_found(monkeypatch):
    monkeypatch.delenv("HUGGING_FACE_HUB_TOKEN", raising=False)
    monkeypatch.setenv("HF_TOKEN", SECRET)
    token = hub.token_from_environment()
    assert token is not None
    assert token.reveal() == SECRET
    monkeypatch.setenv("HF_TOKEN", "")
    assert hub.token_from_environment() is None


def test_the_job_reads_its_one_secret():
    asked = []

    def get(url):
        asked.append(url)
        return {"payload": {"data": base64.b64encode(SECRET.encode()).decode()}}

    assert job.read_token("acme", "hub-token", get).reveal() == SECRET
    assert asked == [
        "https://secretmanager.googleapis.com/v1/projects/acme/secrets/hub-token/versions/latest:access"
    ]
    with pytest.raises(TransferError, match="must hold a token as text"):
        job.read_token("acme", "hub-token", lambda _: {"payload": {"data": "%%"}})


def test_the_job_fills_folder_and_buckets_and_logs_no_token(desk, tmp_path, monkeypatch, capsys):
    target = tmp_path / "disk"

    def download(repository, revision, token, folder, exclude):
        assert (repository, revision, token.reveal(), exclude) == ("a/b", "main", SECRET, ["*.md"])
        tiny.write(folder)
        (folder / ".cache").mkdir()
        return folder

    monkeypatch.setattr(hub, "download", download)
    spec = job.JobSpec(
        buckets=["weights-us", "weights-eu"],
        exclude=["*.md"],
        folder="llama",
        makes_current=False,
        project="acme",
        repository="a/b",
        revision="main",
        target=str(target),
        token_secret="hub-token",
        version=None,
    )
    version = job.run(spec, desk.store, hub.Token(SECRET), job.LogLines())
    assert version == desk.manifest().version
    assert look(desk.store, US, version).is_complete
    assert [read_current(desk.store, home) for home in (US,)] == [version]
    assert Manifest.parse((target / MANIFEST_NAME).read_text()).version == version
    assert not (target / ".cache").exists()
    assert SECRET not in "".join(capsys.readouterr())
