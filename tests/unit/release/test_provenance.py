"""The provenance of a release, and what its check refuses when a file, a list or it is changed."""

import json

import pytest

from scripts.release import verify
from scripts.release.checksums import CHECKSUMS, checksums_of, write_checksums
from scripts.release.provenance import PROVENANCE, statement_of, write_statement
from scripts.release.sources import Commit
from scripts.terminal.console import CommandError

COMMIT = Commit("0a1b" * 10, 1_700_000_000)
WHEEL = "gke_inference-0.1.0-py3-none-any.whl"


@pytest.fixture
def release(tmp_path):
    """A folder with the files of a release."""
    sources, folder = tmp_path / "sources", tmp_path / "release"
    sources.mkdir()
    folder.mkdir()
    (sources / "pyproject.toml").write_text('[project]\nversion = "0.1.0"\n')
    (sources / "requirements.lock").write_text("a==1\n")
    (folder / WHEEL).write_bytes(b"wheel")
    (folder / "images.json").write_text("[]\n")
    write_statement(statement_of(sources, COMMIT, checksums_of(folder)), folder)
    write_checksums(folder)
    return folder


def change_one_byte(file):
    content = bytearray(file.read_bytes())
    content[0] ^= 1
    file.write_bytes(bytes(content))


def refusal(folder, commit=COMMIT):
    with pytest.raises(CommandError) as refused:
        verify.check_files(folder, commit, folder.parent / "sources")
    said = str(refused.value)
    assert "\n" not in said
    return said


def rewrite(folder, edit):
    """Change the statement, and the checksums to match."""
    statement = json.loads((folder / PROVENANCE).read_text())
    edit(statement)
    write_statement(statement, folder)
    write_checksums(folder)


def test_a_statement_names_the_commit_the_locks_and_every_file(release):
    statement = json.loads((release / PROVENANCE).read_text())
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert [each["name"] for each in statement["subject"]] == [WHEEL, "images.json"]
    build = statement["predicate"]["buildDefinition"]
    assert build["externalParameters"] == {"commit": COMMIT.sha, "version": "0.1.0"}
    assert [each["uri"] for each in build["resolvedDependencies"]] == [
        "git:gke-inference",
        "git:gke-inference#requirements.lock",
    ]


def test_untouched_files_are_accepted(release):
    assert {*verify.check_files(release, COMMIT, release.parent / "sources")} == {
        WHEEL,
        "images.json",
        PROVENANCE,
    }


@pytest.mark.parametrize("name", [WHEEL, "images.json", PROVENANCE])
def test_a_changed_byte_is_refused_by_the_name_of_the_file(release, name):
    change_one_byte(release / name)
    assert refusal(release).startswith(f"{name}: the checksum must be ")


def test_a_changed_list_of_checksums_is_refused(release):
    file = release / CHECKSUMS
    text = file.read_text()
    file.write_text(("0" if text[0] != "0" else "1") + text[1:])
    assert f"({CHECKSUMS}), got " in refusal(release)
    file.write_text("x" + text)
    assert refusal(release).startswith(f"{CHECKSUMS}:1: must be a SHA-256 checksum")


def test_a_changed_wheel_with_a_new_checksum_is_refused_by_the_provenance(release):
    change_one_byte(release / WHEEL)
    write_checksums(release)
    assert refusal(release).startswith(f"{PROVENANCE}: subject.{WHEEL}.digest.sha256: must be ")


def test_a_file_that_is_missing_or_new_is_refused(release):
    (release / "more.whl").write_text("more")
    assert refusal(release).startswith("more.whl: the checksum must be none")
    write_checksums(release)
    assert refusal(release).startswith(f"{PROVENANCE}: subject.more.whl: must be {{")
    (release / "more.whl").unlink()
    (release / WHEEL).unlink()
    write_checksums(release)
    assert f"subject.{WHEEL}: must be none, got" in refusal(release)
    (release / PROVENANCE).unlink()
    assert refusal(release).endswith(f"must have {PROVENANCE}, got no such file")


@pytest.mark.parametrize(
    "path",
    [
        "_type",
        "predicateType",
        "predicate.buildDefinition.buildType",
        "predicate.buildDefinition.externalParameters.commit",
        "predicate.buildDefinition.externalParameters.version",
        "predicate.buildDefinition.internalParameters.SOURCE_DATE_EPOCH",
        "predicate.buildDefinition.resolvedDependencies",
        "predicate.runDetails.builder.id",
        "subject",
    ],
)
@pytest.mark.parametrize("value", ["other", None])
def test_a_statement_of_another_build_is_refused_by_its_field(release, path, value):
    def edit(statement):
        *parents, last = path.split(".")
        for key in parents:
            statement = statement[key]
        statement[last] = value

    rewrite(release, edit)
    assert refusal(release).startswith(f"{PROVENANCE}: {path}")


def test_an_entry_that_is_there_twice_is_refused(release):
    other = {"name": "images.json", "digest": {"sha256": "0" * 64}}
    rewrite(release, lambda statement: statement["subject"].insert(1, other))
    assert refusal(release) == f"{PROVENANCE}: lists must have the entries of a build in its order"


def test_a_lock_of_another_content_is_refused(release):
    (release.parent / "sources" / "requirements.lock").write_text("a==2\n")
    assert "resolvedDependencies.git:gke-inference#requirements.lock.digest" in refusal(release)


def test_files_of_another_commit_are_refused(release):
    assert 'externalParameters.commit: must be "ffff' in refusal(release, Commit("f" * 40, 1))


def test_what_is_no_json_or_no_object_is_refused(release):
    for text in (b"{", b"[]", b'"text"', b"\xff"):
        (release / PROVENANCE).write_bytes(text)
        write_checksums(release)
        assert refusal(release).startswith(f"{PROVENANCE}: ")


def test_files_that_agree_with_each_other_are_refused_by_a_build_of_the_commit(
    release, monkeypatch
):
    def build(_repository, _commit, folder):
        for file in release.iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        (folder / WHEEL).write_bytes(b"another wheel")

    monkeypatch.setattr(verify, "build", build)
    with pytest.raises(CommandError) as refused:
        verify.check_rebuilt(checksums_of(release), COMMIT)
    assert str(refused.value).startswith(f"these are not the files of {COMMIT.sha}: {WHEEL}: ")


def test_one_command_checks_a_folder(release, monkeypatch, capsys):
    def export(_repository, _commit, folder, *names):
        for name in names:
            file = release.parent / "sources" / name
            if file.exists():
                (folder / name).write_bytes(file.read_bytes())

    monkeypatch.setattr(verify, "head", lambda _repository: COMMIT)
    monkeypatch.setattr(verify, "export", export)
    monkeypatch.setattr("sys.argv", ["verify", str(release)])
    with pytest.raises(SystemExit) as ended:
        verify.main()
    shown = capsys.readouterr()
    assert (ended.value.code, shown.err) == (0, "")
    assert shown.out.splitlines()[0].startswith("3 files match SHA256SUMS")
    change_one_byte(release / WHEEL)
    with pytest.raises(SystemExit) as ended:
        verify.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"error: {WHEEL}: the checksum must be ")
