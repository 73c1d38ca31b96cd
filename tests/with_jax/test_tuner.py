"""The tuner: it compiles, refuses, ranks and writes; on a device it measures."""

import json
from dataclasses import replace

import pytest
from kernels import __main__ as program
from kernels import measure, tuner
from kernels.shapes import AttentionShape, Blocks

SMALL = AttentionShape(2, 1, 512, 512, 128, causal=True)


@pytest.fixture(scope="module")
def sizes(tmp_path_factory):
    return tuner.CodeSizes(tmp_path_factory.mktemp("sizes") / "sizes.json")


@pytest.fixture(scope="module")
def entry(sizes):
    return tuner.tune("small", SMALL, "v6e", sizes)


def test_the_best_of_what_compiles_is_the_entry(entry):
    assert entry.blocks == Blocks(512, 512, 512)
    assert entry.reason == "published"  # tokamax has these positions, too
    assert entry.estimate_ms < entry.default_ms
    assert entry.measured is None
    assert entry.tried == 2
    assert entry.refused == 0


def test_what_was_compiled_once_is_not_compiled_again(entry, sizes, monkeypatch):
    def never(*_args):
        raise AssertionError("it compiled")

    monkeypatch.setattr(tuner.CodeSizes, "_ask", never)
    again = tuner.CodeSizes(sizes._file)
    assert next(one.blocks for one in tuner.try_all(SMALL, "v6e", again)) == entry.blocks


def test_refused_blocks_come_last_with_the_compiler_s_reason(monkeypatch, sizes):
    monkeypatch.setattr(
        tuner, "blocks_for", lambda _shape: [Blocks(2048, 2048, 512), Blocks(128, 128, 128)]
    )
    first, last = tuner.try_all(SMALL, "v5e", sizes)
    assert first.blocks == Blocks(128, 128, 128)
    assert last.estimate_ms is None
    assert "VMEM" in last.refusal


def test_times_of_a_device_go_before_every_estimate(entry):
    tried = [
        tuner.Tried(Blocks(128, 128, 128), 100_000, "", 0.1),
        tuner.Tried(Blocks(256, 256, 256), 100_000, "", 0.2),
    ]
    small = AttentionShape(1, 1, 256, 256, 128, causal=True, dtype="float32")
    guessed = replace(entry, shape=small, blocks=Blocks(256, 256, 256))
    found = measure.measured(guessed, tried, "a processor", interpret=True)
    assert found.reason == "measured"
    assert found.measured is not None
    assert found.measured.ms > 0
    assert found.measured.chip == "a processor"
    assert found.blocks in {one.blocks for one in tried}


def test_another_device_than_the_table_s_is_not_measured():
    with pytest.raises(ValueError, match="--measure: must run on a v6e, this is 'cpu'"):
        measure.check_device("v6e")


def test_the_program_answers_a_list_of_calls_and_keeps_the_answers(tmp_path, monkeypatch, capsys):
    call = {
        "kernel": "splash",
        "generation": "v6e",
        "shape": vars(SMALL),
        "blocks": vars(Blocks(128, 128, 128)),
    }
    wide = {"kernel": "paged", "generation": "v6e", "heads": 3, "kv_heads": 2, "head_size": 128,
            "context": 1024}  # fmt: skip
    cache = tmp_path / "cache.json"
    answers = []
    for _ in range(2):
        monkeypatch.setattr("sys.stdin", _Text(json.dumps([call, wide])))
        assert program.main(["check", "--cache", str(cache)]) == 0
        answers.append(json.loads(capsys.readouterr().out))
        monkeypatch.setattr(program, "_compile", None)  # the second time nothing is compiled
    assert answers[0] == answers[1]
    good, bad = answers[0]
    assert good["code_bytes"] > 0
    assert not good["refusal"]
    assert bad["code_bytes"] is None
    assert bad["refusal"]


class _Text:
    def __init__(self, text):
        self.text = text

    def read(self):
        return self.text
