"""The pack as a whole."""

from pathlib import Path

import pulumi_policy as sdk

from policies.pack import all_policies
from policies.rules import RULES, STACK_RULES

FOLDER = Path(__file__).resolve().parents[3] / "policies" / "rules"


def test_every_rule_file_is_in_the_pack_and_has_its_test():
    files = {file for file in FOLDER.glob("*/*.py") if file.name != "__init__.py"}
    assert len(files) == len(all_policies({})) == len(RULES) + len(STACK_RULES)
    tests = Path(__file__).parent
    missing = [
        file for file in files if not (tests / file.parent.name / f"test_{file.name}").exists()
    ]
    assert missing == []


def test_every_policy_says_what_must_hold():
    assert all(policy.description.endswith(".") for policy in all_policies({}))


def test_a_mandatory_policy_sets_no_level_so_that_the_pack_and_its_config_decide():
    levels = {rule.name: rule.level for rule in (*RULES, *STACK_RULES)}
    for policy in all_policies({}):
        level = policy.enforcement_level
        name = "mandatory" if level is None else level.value.replace("remediate", "remediating")
        assert name == levels[policy.name]
    assert set(levels.values()) == {"advisory", "mandatory", "remediating"}
    assert sdk.EnforcementLevel.MANDATORY.value == "mandatory"


def test_a_rule_that_mends_says_so_and_no_other_can():
    assert {rule.name for rule in RULES if rule.remedy is not None} == {
        rule.name for rule in RULES if rule.level == "remediating"
    }


def test_there_are_forty_rules_in_seven_subjects_each_with_a_document_that_says_the_same():
    assert len(RULES) + len(STACK_RULES) >= 40
    subjects = {file.parent.name for file in FOLDER.glob("*/*.py") if file.name != "__init__.py"}
    assert subjects == {
        "capacity",
        "cost",
        "data",
        "identity",
        "lifecycle",
        "network",
        "serving",
    }
    assert all(rule.reference for rule in (*RULES, *STACK_RULES))


def test_the_rules_import_no_provider_package():
    sources = [file.read_text() for file in FOLDER.parent.rglob("*.py")]
    assert not [text for text in sources if "pulumi_gcp" in text or "pulumi_kubernetes" in text]
