"""The pack as a whole."""

from pathlib import Path

import pulumi_policy as sdk

from policies.framework.rule import ResourceRule
from policies.pack.policies import all_policies
from policies.rules import policies, resource_rules, stack_rules

FOLDER = Path(__file__).resolve().parents[3] / "policies"
RULES = [listed.rule for listed in policies().values()]


def test_every_rule_file_is_in_the_pack():
    files = {file for file in (FOLDER / "rules").glob("*/*.py") if file.name != "__init__.py"}
    assert {listed.file for listed in policies().values()} == files
    names = [policy.name for policy in all_policies({})]
    assert names == [rule.name for rule in (*resource_rules(), *stack_rules())]
    assert sorted(names) == list(policies())


def test_every_policy_says_what_must_hold():
    assert all(policy.description.endswith(".") for policy in all_policies({}))


def test_a_mandatory_policy_sets_no_level_so_that_the_pack_and_its_config_decide():
    levels = {rule.name: rule.level for rule in RULES}
    for policy in all_policies({}):
        level = policy.enforcement_level
        name = "mandatory" if level is None else level.value.replace("remediate", "remediating")
        assert name == levels[policy.name]
    assert set(levels.values()) == {"advisory", "mandatory", "remediating"}
    assert sdk.EnforcementLevel.MANDATORY.value == "mandatory"


def test_a_remediating_rule_has_a_remedy_and_no_other_has_one():
    remedies = {rule.name for rule in resource_rules() if rule.remedy is not None}
    assert remedies == {rule.name for rule in RULES if rule.level == "remediating"}
    assert all(isinstance(policies()[name].rule, ResourceRule) for name in remedies)


def test_there_are_forty_rules_in_seven_subjects_each_with_a_document_that_says_the_same():
    assert len(RULES) >= 40
    assert {listed.subject for listed in policies().values()} == {
        "capacity",
        "cost",
        "data",
        "identity",
        "lifecycle",
        "network",
        "serving",
    }
    assert all(rule.cis or rule.reference for rule in RULES)


def test_the_rules_import_no_provider_package():
    sources = [file.read_text() for file in FOLDER.rglob("*.py")]
    assert not [text for text in sources if "pulumi_gcp" in text or "pulumi_kubernetes" in text]
