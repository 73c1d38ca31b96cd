"""The pack as a whole."""

from pathlib import Path

import pulumi_policy as sdk

from policies.pack import all_policies
from policies.rules import RULES, STACK_RULES

FOLDER = Path(__file__).resolve().parents[2] / "policies" / "rules"


def test_every_rule_file_is_in_the_pack_and_has_its_test():
    files = {file for file in FOLDER.glob("*/*.py") if file.name != "__init__.py"}
    assert len(files) == len(all_policies()) == len(RULES) + len(STACK_RULES)
    tests = Path(__file__).parent
    missing = [
        file for file in files if not (tests / file.parent.name / f"test_{file.name}").exists()
    ]
    assert missing == []


def test_every_policy_says_what_must_hold():
    assert all(policy.description.endswith(".") for policy in all_policies())


def test_no_policy_sets_a_level_so_the_pack_and_its_config_decide():
    assert {policy.enforcement_level for policy in all_policies()} == {None}
    assert sdk.EnforcementLevel.MANDATORY.value == "mandatory"


def test_the_rules_import_no_provider_package():
    sources = [file.read_text() for file in FOLDER.parent.rglob("*.py")]
    assert not [text for text in sources if "pulumi_gcp" in text or "pulumi_kubernetes" in text]
