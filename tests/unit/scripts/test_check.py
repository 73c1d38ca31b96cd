"""The command `check`."""

import json
from pathlib import Path

import pytest
import typer

from scripts.check.check import check
from scripts.terminal.console import CommandError
from scripts.terminal.output import Output

FIXTURES = Path(__file__).resolve().parents[2] / "contract" / "invariants"
SOUND = FIXTURES / "sound.yaml"
DEFECT = FIXTURES / "published" / "metric-of-an-older-release.yaml"


def run(capsys, *paths, **options):
    """Return (exit code, what was printed)."""
    code = 0
    try:
        check(list(paths), **options)
    except typer.Exit as ended:
        code = ended.exit_code
    return code, capsys.readouterr().out


def options(**given):
    return {
        "output": Output.TABLE,
        "rule": None,
        "list_rules": False,
        "unknown": False,
        "strict": False,
        **given,
    }


def test_sound_objects_end_with_zero_and_say_what_was_not_decided(capsys):
    code, text = run(capsys, SOUND, **options())
    assert code == 0
    assert "0 broken" in text
    assert "images-have-digests: the content is not fixed" in text


def test_what_is_not_decided_fails_when_asked_to(capsys):
    assert run(capsys, SOUND, **options(strict=True))[0] == 1


def test_a_defect_ends_with_one_and_names_object_rule_field_and_fix(capsys):
    code, text = run(capsys, DEFECT, **options(rule=["metrics-exist"]))
    assert code == 1
    for part in ("HorizontalPodAutoscaler", "metrics-exist", "vllm:kv_cache_usage_perc"):
        assert part in text
    assert "1 broken" in text


def test_json_has_every_field_of_a_finding(capsys):
    code, text = run(capsys, DEFECT, **options(output=Output.JSON, rule=["metrics-exist"]))
    assert code == 1
    body = json.loads(text)
    assert (body["broken"], body["rules"]) == (1, 1)
    (finding,) = body["findings"]
    assert finding["object"] == "HorizontalPodAutoscaler default/vllm"
    assert set(finding) >= {"rule", "field", "value", "why", "fix", "verdict", "file"}


def test_one_rule_alone_judges_alone(capsys):
    assert run(capsys, DEFECT, **options(rule=["route-limits"]))[0] == 0


def test_an_unknown_rule_is_answered_with_those_there_are():
    with pytest.raises(CommandError, match=r"must be one of .*metrics-exist"):
        check([SOUND], **options(rule=["no-such"]))


def test_nothing_to_check_is_no_pass():
    with pytest.raises(CommandError, match="PATHS: is required"):
        check(None, **options())


def test_every_rule_is_listed(capsys):
    code, text = run(capsys, **options(list_rules=True))
    assert code == 0
    assert "parallelism-is-chips" in text
