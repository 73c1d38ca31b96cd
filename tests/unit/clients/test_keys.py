"""Keys of clients: what is stored, what is shown, and what becomes of them."""

import hashlib
import json
import re
from contextlib import nullcontext
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta

import pytest

from infra.plan import resolve
from infra.reading.load import read
from scripts.client_keys import documents, reach
from scripts.client_keys.documents import Key, KeyDocument, KeyProblem
from scripts.client_keys.reach import open_secret
from scripts.clients import command
from scripts.shared.google_cloud import CloudError
from scripts.terminal.console import CommandError
from tests.unit.clients.fake_secret import SECRET, SecretManager, kept

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
SALT_KEY = "a-key-of-salts"


def key(name: str, team: str = "research", expires: str | None = None) -> Key:
    return Key(name, team, "0" * 64, "2026-11-01T00:00:00Z", expires)


def test_what_is_stored_of_a_key_is_its_hash() -> None:
    made, text = documents.make("research", NOW, timedelta(days=90))
    assert re.fullmatch(r"gki_[a-z2-7]{8}_[-_A-Za-z0-9]{43}", text)
    assert text.split("_")[1] == made.id
    assert made.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert made.expires == "2027-02-20T12:00:00Z"
    assert text.split("_", 2)[2] not in documents.document([made], SALT_KEY)


def test_two_keys_have_nothing_in_common() -> None:
    first, second = (documents.make("research", NOW) for _ in range(2))
    assert first[0].id != second[0].id
    assert first[1] != second[1]


def test_a_document_is_read_as_it_was_written() -> None:
    before = [key("aaaaaaaa"), key("bbbbbbbb", expires="2026-12-01T00:00:00Z")]
    assert documents.parse(documents.document(before, SALT_KEY)) == KeyDocument(before, SALT_KEY)


@pytest.mark.parametrize("text", ["", "[]", '{"keys": [{"id": "a"}]}', '{"keys": 3}', "nonsense"])
def test_a_secret_with_something_else_is_not_written_over(text: str) -> None:
    manager = SecretManager(versions=[text])
    with pytest.raises(KeyProblem, match="must contain a document of keys"):
        kept(manager).change(lambda found: found)
    assert manager.versions == [text]


def test_the_key_of_the_salts_is_made_once_and_kept() -> None:
    earlier = json.dumps({"keys": [asdict(key("a"))]})
    manager = SecretManager(versions=[earlier])
    kept(manager).change(lambda found: found)
    made = documents.parse(manager.versions[-1]).salt_key
    assert made is not None
    assert re.fullmatch(r"[-_A-Za-z0-9]{43}", made)
    kept(manager).change(lambda found: documents.added(found, key("b"), NOW))
    assert documents.parse(manager.versions[-1]).salt_key == made
    assert documents.new_salt_key() != documents.new_salt_key()


def test_expired_keys_go_with_the_next_change() -> None:
    before = [key("old", expires="2026-11-01T00:00:00Z"), key("kept")]
    after = documents.added(before, key("new"), NOW)
    assert [each.id for each in after] == ["kept", "new"]


def test_a_rotated_key_ends_with_the_overlap_or_earlier_if_it_would_have() -> None:
    before = [key("a"), key("b", expires="2026-11-23T00:00:00Z")]
    end = NOW + timedelta(days=7)
    assert documents.expiring(before, "a", end)[0].expires == "2026-11-29T12:00:00Z"
    assert documents.expiring(before, "b", end)[1].expires == "2026-11-23T00:00:00Z"


def test_rotation_prints_the_key_alone_and_keeps_the_lifetime_of_the_old_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lasting = replace(key("a"), created="2027-01-01T00:00:00Z", expires="2027-01-31T00:00:00Z")
    manager = SecretManager(versions=[documents.document([lasting], SALT_KEY)])
    monkeypatch.setattr(command, "_secret", lambda *_, **__: nullcontext((kept(manager), None)))
    monkeypatch.setattr(documents, "utc_now", lambda: datetime(2027, 1, 30, tzinfo=UTC))
    command.rotate("a", overlap="7d", expires=None)
    out, error = capsys.readouterr()
    old, new = documents.parse(manager.versions[-1]).keys
    assert out.splitlines() == [out.strip()]
    assert hashlib.sha256(out.strip().encode()).hexdigest() == new.sha256
    assert new.expires == "2027-03-01T00:00:00Z", "30 days, as the old one"
    # the old key ends before the overlap does
    assert old.expires == "2027-01-31T00:00:00Z"
    assert f"a is valid until {old.expires}" in error


def test_a_key_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(KeyProblem, match=r"^ID: must be the ID of a key \(a\), got 'z'$"):
        documents.revoked([key("a")], "z", NOW)


@pytest.mark.parametrize("text", ["", "7", "0d", "-1d", "7 days", "7w"])
def test_a_lifetime_is_a_number_and_a_unit(text: str) -> None:
    with pytest.raises(KeyProblem, match="--expires: must be a duration such as 90d"):
        documents.lifetime_of("--expires", text)


def test_the_first_key_of_a_secret_makes_its_first_version() -> None:
    manager = SecretManager()
    kept(manager).change(lambda found: documents.added(found, key("a"), NOW))
    assert kept(manager).read() == (1, [key("a")])


def test_a_secret_that_the_stack_has_not_made_is_named() -> None:
    with pytest.raises(KeyProblem, match=f"{SECRET} does not exist"):
        kept(SecretManager(exists=False)).read()


def test_two_changes_at_once_both_hold() -> None:
    manager = SecretManager(versions=[documents.document([key("a")], SALT_KEY)])

    def other(found: SecretManager) -> None:
        found.before_adding = lambda _: None
        found.versions.append(documents.document([key("a"), key("theirs")], SALT_KEY))

    manager.before_adding = other
    kept(manager).change(lambda found: documents.added(found, key("ours"), NOW))
    assert [each.id for each in kept(manager).read()[1]] == ["a", "theirs", "ours"]


def test_the_first_key_of_a_secret_that_was_made_again_may_have_any_number() -> None:
    manager = SecretManager(earlier=2)
    kept(manager).change(lambda found: documents.added(found, key("a"), NOW))
    assert len(manager.versions) == 1
    number, found = kept(manager).read()
    assert (number, [each.id for each in found]) == (3, ["a"])


def test_a_change_that_never_comes_through_says_so() -> None:
    manager = SecretManager(versions=[documents.document([], SALT_KEY)])
    manager.before_adding = lambda found: found.versions.append(documents.document([], SALT_KEY))
    with pytest.raises(CloudError, match="concurrent changes kept interfering"):
        kept(manager).change(lambda found: found)


def test_more_keys_than_a_secret_holds_are_refused_before_anything_is_written() -> None:
    many = [key(f"{number:08}") for number in range(500)]
    manager = SecretManager()
    with pytest.raises(KeyProblem, match="must have at most 65536 bytes"):
        kept(manager).change(lambda found: [*found, *many])
    assert manager.versions == []


def test_a_stack_that_is_not_up_on_the_twin_is_named_with_both_ways_out(tmp_path, monkeypatch):
    monkeypatch.setenv("GKE_INFERENCE_TWIN_DIR", str(tmp_path))
    prod = resolve(read("prod"))
    says = "--stack: must be a stack that is up on the twin, got 'prod'; "
    says += "run make up STACK=prod, or add --on cloud"
    with pytest.raises(CommandError) as error, open_secret("prod", prod, cloud=False):
        pass
    assert str(error.value) == says
    monkeypatch.setattr(reach.daemon, "ports", lambda _: object())  # another stack is up
    with pytest.raises(CommandError) as error, open_secret("prod", prod, cloud=False):
        pass
    assert str(error.value) == says
