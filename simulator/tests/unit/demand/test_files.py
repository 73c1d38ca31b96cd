"""Readers of traffic files, on lines written here in the published forms."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gke_inference.catalogue.input_error import InputError
from simulator.demand import Arrivals, Traffic, lines, read, rows
from simulator.demand.arrivals import COLUMNS, GROWING

AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    "2023-11-16 18:15:46.6805900,374,44\r\n"
    "2023-11-16 18:15:50.9951690,396,109\r\n"
    "2023-11-16 18:15:51.2224670,879,55\r\n"
)
BURSTGPT = (
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "100.0,one,43,GPT-4,906,446,1352,Conversation log\n"
    "130.0,one,2,GPT-4,1400,29,1429,Conversation log\n"
    "131.0,,2,ChatGPT,36,29,65,API log\n"
    "131.5,,2,ChatGPT,36,0,36,API log\n"
)
OWN = (
    "seconds,model,team,region,prompt_tokens,output_tokens,prefix,prefix_tokens\n"
    "0,chat,red,us-central1,100,20,,\n"
    "2.5,code,blue,,200,30,7,150\n"
    "2.0,chat,red,us-central1,300,40,,\n"
)
BENCH = {
    "model_id": "Qwen/Qwen3-8B", "request_rate": 4.0, "burstiness": 1.0,
    "input_lens": [10, 20, 30], "output_lens": [5, 0, 7], "errors": ["", "boom", ""],
    "start_times": [70.0, 70.5, 71.5],
}  # fmt: skip
PERF = """
load: {type: poisson, interval: 10, stages: [{rate: 20, duration: 100}, {rate: 60, duration: 50}]}
server: {type: vllm, model_name: chat, base_url: http://localhost}
data:
  type: shared_prefix
  shared_prefix:
    num_unique_system_prompts: 4
    system_prompt_len: 1000
    question_len: {type: normal, mean: 200, std_dev: 50, min: 10, max: 400}
    output_len: 64
"""


def _mooncake(*requests: tuple[int, int, list[int]]) -> str:
    return "".join(
        json.dumps({"timestamp": at, "input_length": n, "output_length": 9, "hash_ids": ids}) + "\n"
        for at, n, ids in requests
    )


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str, str], Path]:
    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def _all(traffic: Traffic, most: int = 1_000_000) -> Arrivals:
    return Arrivals.joined(list(traffic.chunks(most)))


def test_azure_traces_give_times_and_lengths_also_compressed(
    file: Callable[[str, str], Path],
) -> None:
    plain = file("trace.csv", AZURE)
    packed = plain.with_suffix(".csv.gz")
    packed.write_bytes(gzip.compress(AZURE.encode()))

    for path in (plain, packed):
        traffic = read(path, only_model="chat")
        found = _all(traffic)
        assert traffic.models == ("chat",)
        assert found.seconds.tolist() == pytest.approx([0, 4.314579, 4.541877], abs=1e-5)
        assert found.prompt_tokens.tolist() == [374, 396, 879]
        assert found.output_tokens.tolist() == [44, 109, 55]


def test_azure_times_of_2024_have_a_time_zone(file: Callable[[str, str], Path]) -> None:
    lines_of_2024 = (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,1,2\n"
        "2024-05-10 02:00:01+02:00,3,4\n"
    )

    found = _all(read(file("t.csv", lines_of_2024), only_model="m"))

    assert found.seconds.tolist() == pytest.approx([0, 0.99007], abs=1e-5)


def test_burstgpt_sessions_are_prefix_groups_and_failures_are_left_out(
    file: Callable[[str, str], Path],
) -> None:
    traffic = read(file("b.csv", BURSTGPT), {"GPT-4": "large", "ChatGPT": "small"})

    found = _all(traffic)

    assert traffic.models == ("large", "small")
    assert found.model.tolist() == [0, 0, 1]
    assert found.prefix.tolist() == [GROWING, GROWING, -1]
    assert found.prefix_tokens.tolist() == [0, 1352, 0]


def test_mooncake_blocks_become_prefix_groups(file: Callable[[str, str], Path]) -> None:
    path = file(
        "trace.jsonl",
        _mooncake(
            (0, 1100, [0, 1, 2]),
            (500, 1200, [0, 3, 4]),  # only a common start: a group of its own
            (1000, 2048, [0, 1, 2, 5]),  # the first, continued
            (1500, 900, [0, 3]),  # a part of the second
        ),
    )

    found = _all(read(path, only_model="chat"))

    assert found.seconds.tolist() == [0, 0.5, 1.0, 1.5]
    assert (found.prefix - GROWING).tolist() == [0, 1, 0, 1]
    assert found.prefix_tokens.tolist() == [0, 512, 1536, 900]


def test_the_own_list_has_models_teams_and_regions_and_is_sorted(
    file: Callable[[str, str], Path],
) -> None:
    traffic = read(file("own.csv", OWN))

    found = _all(traffic)

    assert (traffic.models, traffic.teams, traffic.regions) == (
        ("chat", "code"), ("red", "blue"), ("us-central1",),
    )  # fmt: skip
    assert found.seconds.tolist() == [0, 2.0, 2.5]
    assert found.prompt_tokens.tolist() == [100, 300, 200]
    assert found.region.tolist() == [0, 0, -1]
    assert found.prefix.tolist() == [-1, -1, 7]


def test_a_result_of_vllm_has_its_start_times_or_is_made_at_its_rate(
    file: Callable[[str, str], Path],
) -> None:
    found = _all(read(file("r.json", json.dumps(BENCH))))
    assert found.seconds.tolist() == [0, 1.5]
    assert found.prompt_tokens.tolist() == [10, 30]

    count = 40_000
    older = {**BENCH, "input_lens": [10] * count, "output_lens": [5] * count, "burstiness": 0.25}
    del older["start_times"], older["errors"]
    gaps = np.diff(_all(read(file("o.json", json.dumps(older)))).seconds)
    assert gaps.mean() == pytest.approx(1 / 4, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(2, rel=0.05)


def test_a_result_of_vllm_is_one_line_of_any_length(
    file: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MOST_LINE", 100)
    path = file("r.json", json.dumps({**BENCH, "generated_texts": ["x" * 200]}))

    assert len(_all(read(path))) == 2


def test_stages_of_inference_perf_become_rates_with_shared_prefixes(
    file: Callable[[str, str], Path],
) -> None:
    traffic = read(file("spec.yml", PERF))

    found = _all(traffic)

    assert traffic.models == ("chat",)
    assert traffic.seconds == 160
    first, rest = found[found.seconds < 100], found[found.seconds > 110]
    assert len(first) == pytest.approx(2000, abs=4.5 * 2000**0.5)
    assert len(rest) == pytest.approx(3000, abs=4.5 * 3000**0.5)
    assert len(first) + len(rest) == len(found)
    assert sorted(set(found.prefix.tolist())) == [0, 1, 2, 3]
    assert set(found.prefix_tokens.tolist()) == {1000}
    assert found.prompt_tokens.mean() == pytest.approx(1200, rel=0.02)


def test_clients_of_servegen_are_teams_with_their_rates_and_lengths(tmp_path: Path) -> None:
    for number, rate in ((0, 6.0), (7, 2.0)):
        trace = f"0,{rate},1.5,Gamma,0.4,0.1\n600,0,0,,0,0\n1200,{rate},1.5,Gamma,0.4,0.1\n"
        (tmp_path / f"chunk-{number}-trace.csv").write_text(trace)
        data = {
            "0": {
                "input_tokens": "{100: 0.5, 300: 0.5}",
                "output_tokens": f"{{{40 + number}: 1.0}}",
            }
        }
        (tmp_path / f"chunk-{number}-dataset.json").write_text(json.dumps(data))

    traffic = read(tmp_path, only_model="small")
    found = _all(traffic)

    assert (traffic.models, traffic.teams) == (("small",), ("client-0", "client-7"))
    assert traffic.seconds == 1800
    assert np.bincount(found.team).tolist() == pytest.approx([7200, 2400], rel=0.12)
    assert not np.any((found.seconds > 600) & (found.seconds < 1200))
    assert set(found.output_tokens[found.team == 1].tolist()) == {47}
    assert np.mean(found.prompt_tokens == 300) == pytest.approx(0.5, abs=0.05)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.tuples(st.integers(0, 20_000), st.integers(0, 900), st.integers(0, 90)), max_size=60
    ),
    st.sampled_from([1, 7, 1000]),
)
def test_lines_in_any_order_within_the_tolerance_are_sorted_whatever_the_chunks(
    tmp_path_factory: pytest.TempPathFactory, lines_: list[tuple[int, int, int]], most: int
) -> None:
    lines_.append((30_000, 5, 5))
    path = tmp_path_factory.mktemp("any") / "own.csv"
    text = "".join(f"{at / 1000},m,,,{n},{m},,\n" for at, n, m in lines_)
    path.write_text(OWN.splitlines()[0] + "\n" + text)
    kept = sorted(at / 1000 for at, n, m in lines_ if n and m)

    traffic = read(path)

    found = _all(traffic, most)
    assert found.seconds.tolist() == pytest.approx([at - kept[0] for at in kept])
    again = _all(traffic)
    assert all(np.array_equal(getattr(found, name), getattr(again, name)) for name in COLUMNS)


_HEAD = OWN.splitlines()[0] + "\n"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", "a.csv: must have requests, got an empty file"),
        ("a.csv", "time,tokens\n1,2\n", "a.csv:1: header: must be one of TIMESTAMP,"),
        ("a.csv", "x" * 200_000, "a.csv:1: must be comma-separated: field larger than"),
        ("a.csv", AZURE.replace("396", "-4"),
         "a.csv:3: prompt tokens: must be 0 to 100000000, got -4"),
        ("a.csv", AZURE.replace("396", "many"),
         "a.csv:3: ContextTokens: must be a whole number, got 'many'"),
        ("a.csv", AZURE.replace("2023-11-16 18:15:50", "2023-11-16 18:14:00"),
         "a.csv:3: time: must not be more than 60 s before an earlier line, got '105.685 s "
         "before'"),
        ("a.csv", AZURE.replace("2023-11-16 18:15:51", "2023-11-18 18:15:51"),
         "a.csv:4: time: must not be more than 24 h after the line before, got '48.0 h after'"),
        ("a.csv", AZURE + "2023-11-16 18:15:52,1\n", "a.csv:5: must have 3 columns, got 2"),
        ("a.csv", AZURE.splitlines()[0] + "\n", "a.csv: must have requests with tokens, got none"),
        ("a.csv", _HEAD + "nan,m,,,1,1,,\n", "a.csv:2: time: must be finite, got nan"),
        ("a.csv", _HEAD + "0,m,,,5,1,0,6\n",
         "a.csv:2: prefix_tokens: must be 0 to prompt_tokens, 5, got 6"),
        ("a.csv", _HEAD + "0,m,,,-5,1,,\n",
         "a.csv:2: prompt tokens: must be 0 to 100000000, got -5"),
        ("a.csv", _HEAD + "0,,,,5,1,,\n",
         "a.csv: model: has no names of models: must be given the name of one"),
        ("a.jsonl", '{"timestamp": 1, "input_length": 5}\n',
         "a.jsonl:1: output_length: is required"),
        ("a.jsonl", _mooncake((0, 5, [1])) + "{\n", "a.jsonl:2: must be a JSON object: "),
        ("a.json", '{"duration": 1}',
         "a.json: input_lens: is required (vllm bench serve --save-result --save-detailed)"),
        ("a.json", json.dumps({"input_lens": [1], "output_lens": [1], "request_rate": "inf"}),
         "a.json: request_rate: must be a number where a result has no start_times"),
        ("a.yml", PERF.replace("poisson", "concurrent"), "a.yml: load.type: must be"),
        ("a.yml", PERF.replace("rate: 60", "rate: -1"), "a.yml: load.stages[1].rate: must be"),
        ("a.yml", "models: {m: {requests_per_second: 1}}\n", "a.yml: kinds: is required"),
        ("a.yml", "models: [\n", "a.yml: must be YAML: "),
    ],
)  # fmt: skip
def test_bad_input_gets_one_line_with_file_line_field_rule_and_value(
    file: Callable[[str, str], Path], name: str, text: str, message: str
) -> None:
    path = file(name, text)
    only = None if text.startswith(_HEAD) or name.endswith(".yml") else "m"

    with pytest.raises(InputError) as error:
        read(path, only_model=only)

    shown = str(error.value).replace(str(path.parent) + "/", "")
    assert shown.startswith(message)
    assert "\n" not in shown


def test_a_file_that_is_too_long_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "week.csv"
    with path.open("wb") as sparse:  # takes no room on the disk
        sparse.truncate(40_000_000_000)

    with pytest.raises(InputError, match=f"must have at most {lines.MOST_BYTES:,} bytes") as error:
        read(path, only_model="m")

    assert error.value.value == 40_000_000_000


def test_a_line_that_is_too_long_and_a_bomb_of_gzip_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MOST_BYTES", 100_000)
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress((AZURE + "2023-11-16 18:15:52,1,1\n" * 10_000).encode()))

    with pytest.raises(InputError, match="bytes per line and 100,000 in all"):
        read(path, only_model="m")


def test_an_unknown_model_is_refused_with_the_known_ones(file: Callable[[str, str], Path]) -> None:
    with pytest.raises(InputError, match=r"model: must be one of GPT-4, got 'ChatGPT'"):
        read(file("b.csv", BURSTGPT), {"GPT-4": "large"})


def test_memory_of_remembered_prefixes_is_bounded() -> None:
    recent = rows.Recent[int](100)

    for number in range(10_000):
        recent.put(number, number)
        assert recent.get(number - 20 if number >= 20 else number) is not None

    assert recent.get(0) is None
