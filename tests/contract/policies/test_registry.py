"""Rules are discovered: one in each module below a package."""

import sys

import pytest

from policies.framework.registry import by_name, discover
from policies.framework.rule import Rule

RULE = """
from policies.framework.rule import Rule
RULE = Rule(name={!r}, description="", reference="")
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a function that writes a package of modules and returns its name."""

    def write(**modules):
        subject = tmp_path / "made_rules" / "cost"
        subject.mkdir(parents=True)
        (subject.parent / "__init__.py").touch()
        (subject / "__init__.py").touch()
        for name, text in modules.items():
            (subject / f"{name}.py").write_text(text)
        return "made_rules"

    monkeypatch.syspath_prepend(tmp_path)
    yield write
    for name in [name for name in sys.modules if name.startswith("made_rules")]:
        del sys.modules[name]


def test_a_rule_is_listed_with_its_folder_and_file(package):
    (listed,) = discover(package(one=RULE.format("a-rule")), Rule)
    assert (listed.rule.name, listed.subject, listed.file.name) == ("a-rule", "cost", "one.py")


def test_a_module_without_a_rule_is_refused_by_its_name(package):
    with pytest.raises(
        TypeError, match=r"^made_rules\.cost\.one\.RULE: must be a Rule, got nothing$"
    ):
        discover(package(one="X = 1\n"), Rule)


def test_two_rules_of_one_name_are_refused(package):
    found = discover(package(one=RULE.format("a"), two=RULE.format("a")), Rule)
    with pytest.raises(ValueError, match=r"^rules: names must be unique, got a twice$"):
        by_name(found)


def test_rules_are_listed_in_the_order_of_their_names(package):
    found = discover(package(one=RULE.format("z"), two=RULE.format("a")), Rule)
    assert list(by_name(found)) == ["a", "z"]
