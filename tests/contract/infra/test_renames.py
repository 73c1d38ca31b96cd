"""Old words of a stack: accepted with a warning for one minor version, refused after it."""

import json
from functools import reduce
from typing import Any

import pulumi
import pytest

from infra.reading import load
from infra.reading.load import STACKS, WITHIN, parse, platform_of, read
from infra.stack import renames
from infra.stack.problems import StackError
from infra.stack.renames import RENAMES, Kind, Rename, old_words, with_new_words

IMAGES = STACKS.parent / "docs" / "examples" / "personalized-images"
FILE = IMAGES / "Pulumi.personalized-images.yaml"
KEY = Rename(Kind.KEY, "models.*.pictures", "images", "0.2")
IN_LIST = Rename(Kind.KEY, "capacity.*.rungs.*.chips", "count", "0.2")
WORD = Rename(Kind.VALUE, "capacity.*.rungs.*.provisioning", "spot", "0.2", "preemptible")
SECTION = Rename(Kind.KEY, "personal_pictures", "personal_images", "0.2")
INSIDE = Rename(Kind.KEY, "personal_images.most_images", "max_images", "0.2")
TABLE = (KEY, IN_LIST, WORD, INSIDE, SECTION)

OLD = """\
# the platform
capacity:
  a:
    rungs:
      - {accelerator: l4, chips: 1, provisioning: preemptible} # chips of one machine
      - accelerator: l4
        "chips": 2 # the second rung
        provisioning: "preemptible"
models:
  pictures: # a model whose name is an old key
    pictures: &how {steps: 4} # pictures: said in a comment
  other.model:
    weights: pictures
    pictures: *how
personal_pictures:
    most_images:    7
"""
NEW = """\
# the platform
capacity:
  a:
    rungs:
      - {accelerator: l4, count: 1, provisioning: spot} # chips of one machine
      - accelerator: l4
        "count": 2 # the second rung
        provisioning: "spot"
models:
  pictures: # a model whose name is an old key
    images: &how {steps: 4} # pictures: said in a comment
  other.model:
    weights: pictures
    images: *how
personal_images:
    max_images:    7
"""


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    load._warn.cache_clear()
    monkeypatch.setattr(pulumi.log, "warn", found.append)
    return found


def with_table(monkeypatch: pytest.MonkeyPatch, *table: Rename, version: str = "0.2.0") -> None:
    monkeypatch.setattr(load, "RENAMES", table)
    monkeypatch.setattr(renames, "version", lambda: version)


def with_old_word(rename: Rename, model: str = "flux-dev") -> tuple[dict[str, Any], str]:
    """Return the example with an old key in place of the new one, and where it is."""
    platform = platform_of(FILE)
    *parts, old = rename.path.replace("*", model).split(".")
    place = reduce(lambda found, part: found[part], parts, platform)
    place[old] = place.pop(rename.new, 4)
    return platform, ".".join([*parts, old])


def test_only_the_words_change_and_comments_quotes_and_spaces_stay() -> None:
    text, found = with_new_words(OLD, TABLE)
    assert text == NEW
    assert [each.where for each in found] == [
        "capacity.a.rungs[0].chips",
        "capacity.a.rungs[0].provisioning",
        "capacity.a.rungs[1].chips",
        "capacity.a.rungs[1].provisioning",
        "models.pictures.pictures",
        "models.other.model.pictures",
        "personal_pictures",
        "personal_images.most_images",
    ]


def test_a_rewritten_text_is_not_changed_again() -> None:
    assert with_new_words(NEW, TABLE) == (NEW, [])


def test_what_an_anchor_shares_is_renamed_where_it_is() -> None:
    text = "a: &both\n  pictures: 1\nmodels:\n  x: *both\n  y: {<<: *both, z: 1}\n"
    assert with_new_words(text, (KEY,))[0] == text.replace("pictures", "images")


def test_json_of_the_engine_is_rewritten_as_yaml_is() -> None:
    text = json.dumps({"models": {"x": {"pictures": {"note": "pictures é \U0001f600"}}}})
    assert json.loads(with_new_words(text, (KEY,))[0]) == {
        "models": {"x": {"images": {"note": "pictures é \U0001f600"}}}
    }


def test_words_below_other_keys_of_a_file_are_left() -> None:
    text = "config:\n  other:platform:\n    models: {x: {pictures: 1}}\n"
    assert old_words(text, RENAMES, WITHIN) == []


def test_a_text_that_is_no_yaml_has_no_old_words() -> None:
    assert old_words("models: {x: {pictures: [", (KEY,)) == []


def test_a_word_of_this_minor_version_is_accepted_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, warnings: list[str]
) -> None:
    with_table(monkeypatch, KEY, version="0.2.3")
    platform, where = with_old_word(KEY)
    assert parse(json.dumps(platform)) == read("personalized-images", IMAGES)
    assert warnings == [
        f"{where}: is renamed to 'images'; version 0.3 no longer accepts the old word "
        "(gke-inference upgrade rewrites it)"
    ]


def test_a_command_warns_once_and_names_the_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    load._warn.cache_clear()
    with_table(monkeypatch, KEY)
    # other tests leave a stand-in of the engine behind, which a command does not have
    monkeypatch.setattr("pulumi.log.get_engine", lambda: None)
    text = FILE.read_text().replace("images: {sizes", "pictures: {sizes")
    (tmp_path / "Pulumi.x.yaml").write_text(text)
    assert read("x", tmp_path).models == read("x", tmp_path).models
    said = capsys.readouterr()
    assert (said.out, len(said.err.splitlines())) == ("", 1)
    assert said.err.startswith("warning: Pulumi.x.yaml: models.flux-dev.pictures: is renamed to ")


def test_a_word_of_an_older_version_is_refused_with_the_new_one(
    monkeypatch: pytest.MonkeyPatch, warnings: list[str]
) -> None:
    with_table(monkeypatch, KEY, WORD, version="0.3.0")
    platform, where = with_old_word(KEY)
    rungs = next(iter(platform["capacity"].values()))["rungs"]
    rungs[0]["provisioning"] = "preemptible"
    with pytest.raises(StackError) as refused:
        parse(json.dumps(platform))
    name = next(iter(platform["capacity"]))
    assert sorted(str(refused.value).splitlines()) == [
        f"capacity.{name}.rungs[0].provisioning must be spot, its new name, got 'preemptible'",
        f"{where} is renamed to 'images'",
    ]
    assert warnings == []


@pytest.mark.parametrize("rename", RENAMES, ids=lambda rename: rename.path)
def test_the_words_from_before_the_first_release_are_refused(rename: Rename) -> None:
    platform, where = with_old_word(rename)
    with pytest.raises(StackError) as refused:
        parse(json.dumps(platform))
    assert str(refused.value) == f"{where} is renamed to {rename.new!r}"
    assert parse(with_new_words(json.dumps(platform), RENAMES)[0])


def test_an_old_key_beside_the_new_one_is_refused_and_not_rewritten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_table(monkeypatch, KEY)
    platform = platform_of(FILE)
    platform["models"]["flux-dev"]["pictures"] = {}
    text = json.dumps(platform)
    assert with_new_words(text, (KEY,)) == (text, [])
    with pytest.raises(StackError) as refused:
        parse(text)
    assert str(refused.value) == (
        "models.flux-dev.pictures is renamed to 'images', which is also set"
    )
