"""Settings of jobs: bad ones are refused in one line before anything is read."""

import json

import pytest

from workloads.optimization.main import main
from workloads.optimization.settings import (
    SettingsError,
    read_evaluate,
    read_quantize,
    read_tune,
)

SIDE = {"model": "chat", "version": "", "weights": "chat"}
EVALUATE = {
    "baseline": SIDE,
    "bucket": "models",
    "candidate": SIDE,
    "data": "q.jsonl",
    "endpoint": "http://gateway",
    "name": "canary",
    "tolerance": 0.02,
}
QUANTIZE = {"bucket": "models", "model": "chat", "result": "chat-fp8", "scheme": "fp8"}
TUNE = {"bucket": "models", "data": "d.jsonl", "model": "chat", "result": "chat/adapters/a"}


@pytest.mark.parametrize(
    ("read", "given", "change", "message"),
    [
        (read_quantize, QUANTIZE, {"scheme": "int2"}, "scheme: must be one of fp8, w4a16, w8a8"),
        (read_quantize, QUANTIZE, {"scheme": "w8a8"}, "data: must be set for scheme w8a8"),
        (read_quantize, QUANTIZE, {"samples": 0}, "samples: must be 1 to 100000, got 0"),
        (read_tune, TUNE, {"rank": 12}, "rank: must be one of 8, 16, 32, 64, 128, 256, got '12'"),
        (read_tune, TUNE, {"learning_rate": 2.0}, "learning_rate: must be more than 0 and"),
        (read_tune, TUNE, {"data": ""}, "data: must be set, got nothing"),
        (read_evaluate, EVALUATE, {"data": ""}, "tasks, data: must have one of them, got neither"),
        (read_evaluate, EVALUATE, {"tolerance": 2}, "tolerance: must be 0 to 1, got 2"),
        (read_evaluate, EVALUATE, {"candidate": {}}, "candidate: must have the fields model"),
        (read_evaluate, EVALUATE, {"endpoint": "gateway"}, "endpoint: must be a URL"),
    ],
)
def test_a_wrong_setting_is_refused(read, given, change, message):
    with pytest.raises(SettingsError) as refused:
        read(json.dumps({**given, **change}))
    assert str(refused.value).startswith(message)


def test_a_tolerance_of_zero_is_a_tolerance():
    assert read_evaluate(json.dumps({**EVALUATE, "tolerance": 0})).tolerance == 0


def test_the_program_ends_with_2_for_settings_that_it_cannot_use(tmp_path, capsys):
    file = tmp_path / "settings.json"
    file.write_text("[]")
    assert main(["quantize", str(file)]) == 2
    assert "settings: must be a JSON object, got list" in capsys.readouterr().err
    assert main(["distill", str(file)]) == 2
