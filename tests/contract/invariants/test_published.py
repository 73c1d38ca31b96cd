"""Defects of published manifests are found: each file has the shape of one, in our own words."""

from pathlib import Path

import pytest
import yaml

from policies.checker.checker import check_objects
from policies.checker.rules import invariants
from policies.framework.finding import Verdict
from policies.objects.documents import sources

FOLDER = Path(__file__).parent / "published"
ALL = [listed.rule for listed in invariants().values()]

FOUND = yaml.load((FOLDER.parent / "published.yaml").read_text(), yaml.CSafeLoader)


def found_in(name):
    report = check_objects(sources([FOLDER / f"{name}.yaml"]), ALL)
    return {each.rule for each in report.of(Verdict.BROKEN)}


def test_every_published_defect_is_listed():
    assert {file.stem for file in FOLDER.glob("*.yaml")} == set(FOUND)


@pytest.mark.parametrize("name", sorted(FOUND))
def test_the_published_defect_is_found(name):
    assert found_in(name) >= set(FOUND[name])


def test_a_compile_cache_in_no_volume_is_named_with_variable_and_path():
    report = check_objects(sources([FOLDER / "compile-cache-in-no-volume.yaml"]), ALL)
    (found,) = [each for each in report.of(Verdict.BROKEN) if each.rule == "paths-are-mounted"]
    assert found.field.endswith("env[VLLM_XLA_CACHE_PATH]")
    assert found.value == "/data"


def test_a_metric_that_was_renamed_is_answered_with_its_new_name():
    report = check_objects(sources([FOLDER / "metric-of-an-older-release.yaml"]), ALL)
    (found,) = [each for each in report.of(Verdict.BROKEN) if each.rule == "metrics-exist"]
    assert "vllm:kv_cache_usage_perc" in found.why
    assert "0.12.0" in found.why
