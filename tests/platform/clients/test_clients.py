"""Teams with keys in front of a model, as docs/clients.md says: from `up` to a revoked key."""

import json
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from operator import itemgetter
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from scripts.clients.reconcile import SLACK
from tests.platform import example_checkout
from tests.platform.clients import apis, large_bodies
from tests.platform.clients.stalled import IDLE_SECONDS, check_stalled_streams
from tests.platform.example_checkout import output_of
from tests.platform.gate import until_keys_are_read
from twin.host.paths import TwinPaths
from twin.tests.eventually import eventually

# tests/platform/backends has a key until it is revoked, tests/running/callout the limits and cache
pytestmark = [pytest.mark.needs_tools, pytest.mark.soak]

MODEL = "llama-3.1-8b"
STACK = ("--stack", "clients")
TRIAL = f"""\
        trial:
          models: [{MODEL}, support]
          monthly_usd: 0.15
          when_spent: {{model: support, monthly_usd: 1}}
"""
"""A team whose budget is spent by the question of `up` ($0.118) and one more."""
REVOKED_WITHIN_SECONDS = 5.0
LONG_TOKENS = 300
REFUSED_WITHIN_SECONDS = 10.0
"""The router would hold a body for a minute; a machine needs seconds to send hundreds of MiB."""


@pytest.fixture
def checkout(tmp_path) -> Path:
    """A checkout whose stack is that of the example, with a month that three requests spend."""
    folder = example_checkout.checkout(tmp_path / "checkout", "clients")
    file = folder / "stacks" / "Pulumi.clients.yaml"
    text = file.read_text()
    price = "llama-3.1-8b: {input_usd_per_million: 0.10, output_usd_per_million: 0.40}"
    changes = {
        "tokens_per_month: 500000000": "tokens_per_month: 60",
        price: "llama-3.1-8b: {input_usd_per_million: 1000, output_usd_per_million: 4000}",
        "      issuers: #": TRIAL + "      issuers: #",
        "    clients:\n": f"    clients:\n      stream_idle_seconds: {IDLE_SECONDS}\n",
    }
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    return folder


@pytest.fixture
def client():
    """Makes a client of an endpoint with a key."""
    with ExitStack() as made:

        def make(endpoint: str, key: str) -> openai.OpenAI:
            http = made.enter_context(openai.DefaultHttpxClient(trust_env=False))
            return openai.OpenAI(
                base_url=f"{endpoint}/v1", api_key=key, max_retries=0, http_client=http
            )

        yield make


@pytest.fixture
def speaker():
    """Makes a client of Anthropic's API."""
    with ExitStack() as made:

        def make(endpoint: str, key: str) -> anthropic.Anthropic:
            http = made.enter_context(anthropic.DefaultHttpxClient(trust_env=False))
            return anthropic.Anthropic(
                base_url=endpoint, api_key=key, max_retries=0, http_client=http
            )

        yield make


def ask(of: openai.OpenAI, model: str = MODEL, **more):
    messages: Any = [{"role": "user", "content": "Which keys open which doors?"}]
    asked: dict[str, Any] = {"max_tokens": 8, "messages": messages, "model": model}
    return of.chat.completions.create(**asked | more)


def ask_again_and_again(of: openai.OpenAI) -> None:
    for _ in range(10):
        ask(of)


def passes(of: openai.OpenAI) -> bool:
    """Return whether a request with a key passes; a replica may not know the key yet."""
    try:
        ask(of)
    except openai.AuthenticationError:
        return False
    return True


def until_it_is(passing: bool, of: openai.OpenAI) -> float:
    """Wait until requests of a client pass, or do not; return the seconds that it took."""
    begun = time.monotonic()
    while passes(of) is not passing:
        assert time.monotonic() - begun < 3 * REVOKED_WITHIN_SECONDS
        time.sleep(0.5)
    return time.monotonic() - begun


def cache_status(of: openai.OpenAI) -> str:
    """Ask a question whose answer may be known, and return what the cache says about it."""
    messages: Any = [{"role": "user", "content": "What is a key of a team for?"}]
    answer = of.chat.completions.with_raw_response.create(model="support", messages=messages)
    return answer.headers["cache-status"]


def usage(paths: TwinPaths) -> list[dict]:
    logs = paths.root.glob("clusters/*/logs/pods/*client-gate*.log")
    lines = [line for log in logs for line in log.read_text().splitlines()]
    return [found for line in lines if "prompt_tokens" in (found := json.loads(line))]


def check_apis(paths: TwinPaths, endpoint: str, key: str, assistant: openai.OpenAI, make) -> None:
    """Use the APIs of messages and responses, and find what they used in the records."""
    speaker = make(endpoint, key)
    tokens = apis.use_responses(assistant) + apis.use_messages(speaker)

    def records(*, estimated: bool) -> list[dict[str, Any]]:
        mine = [one for one in usage(paths) if one["key_id"] == key.split("_")[1]]
        mine = [one for one in mine if one["model"] == apis.MODEL and one["status"] == 200]
        return [one for one in mine if one["estimated"] is estimated]

    def recorded() -> bool:
        return sum(one["completion_tokens"] for one in records(estimated=False)) == tokens

    eventually(recorded, 30)
    apis.leave_a_message(speaker)
    (left,) = eventually(lambda: records(estimated=True), 30)
    assert 0 < left["completion_tokens"] < 4000
    assert apis.refusals(speaker) == [
        ("NotFoundError", "not_found_error"),
        ("BadRequestError", "invalid_request_error"),
    ]
    wrong = apis.error_of(make(endpoint, "none"), apis.MODEL, apis.QUESTION)
    assert wrong == ("AuthenticationError", "authentication_error")


def check_spent_budget(checkout: Path, paths: TwinPaths, endpoint: str, client, speaker) -> None:
    """Spend the budget of a team; a cheaper model answers then, in every API, and is recorded."""
    key = output_of(checkout, paths, "clients", "keys", "create", "trial", *STACK).strip()
    trial = client(endpoint, key)
    until_keys_are_read(paths)
    assert ask(trial).model == MODEL
    answered = trial.chat.completions.with_raw_response.create(
        model=MODEL, max_tokens=8, messages=[{"role": "user", "content": "Which keys?"}]
    )
    assert answered.headers["x-gki-instead-of"] == MODEL
    assert answered.parse().model == "support"
    assert {chunk.model for chunk in ask(trial, stream=True)} == {"support"}
    response = trial.responses.create(model=MODEL, input="Which keys?", max_output_tokens=8)
    assert response.model == "support"
    messages: Any = [{"role": "user", "content": "Which keys?"}]
    message = speaker(endpoint, key).messages.create(model=MODEL, max_tokens=8, messages=messages)
    assert message.model == "support"

    def recorded() -> bool:
        mine = [one for one in usage(paths) if one["key_id"] == key.split("_")[1]]
        mine.sort(key=itemgetter("time"))  # each gate has its own log
        named = [(one["model"], one.get("instead_of")) for one in mine if one["status"] == 200]
        return named == [(MODEL, None), *[("support", MODEL)] * 4]

    eventually(recorded, 30)
    by = ("--by", "team,model", "-o", "json")
    listed = json.loads(output_of(checkout, paths, "clients", "usage", *STACK, *by))
    assert {MODEL, "support"} <= {row["model"] for row in listed if row["team"] == "trial"}


def compared(checkout: Path, paths: TwinPaths) -> tuple[int, dict[str, dict[str, Any]]]:
    """Return the exit code of `clients reconcile`, and its rows of the model by kind."""
    arguments = ("clients", "reconcile", *STACK, "-o", "json")
    answer = example_checkout.run(checkout, paths, *arguments, stderr=subprocess.DEVNULL)
    rows = json.loads(answer.stdout) if answer.returncode < 2 else []
    return answer.returncode, {row["kind"]: row for row in rows if row["model"] == MODEL}


def check_records(checkout: Path, paths: TwinPaths, assistant: openai.OpenAI) -> None:
    """Answer a few hundred tokens, compare records and counters, and delete the record."""
    answer = ask(assistant, max_tokens=LONG_TOKENS, extra_body={"ignore_eos": True})
    assert answer.usage.completion_tokens == LONG_TOKENS
    listed = json.loads(output_of(checkout, paths, "clients", "usage", *STACK, "-o", "json"))
    (team,) = [row for row in listed if row["team"] == "assistant"]
    assert team["completion_tokens"] >= LONG_TOKENS

    # an engine counts its adapters' tokens as the model's
    whole = sum(one["completion_tokens"] for one in usage(paths)) - SLACK

    def agreement() -> dict[str, Any] | None:
        code, rows = compared(checkout, paths)
        found = rows.get("completion", {"recorded": 0, "counted": 0})
        both = min(found["recorded"], found["counted"])
        return found if code == 0 and both >= whole else None

    eventually(agreement, 150)  # counters are compared when they are 30 s old
    for log in paths.root.glob("clusters/*/logs/pods/*client-gate*.log"):
        lines = log.read_text().splitlines(keepends=True)
        kept = [line for line in lines if f'"completion_tokens":{LONG_TOKENS}' not in line]
        log.write_text("".join(kept))
    code, rows = compared(checkout, paths)
    assert (code, rows["completion"]["agrees"]) == (1, False)
    missing = rows["completion"]["counted"] - rows["completion"]["recorded"]
    assert missing >= LONG_TOKENS - SLACK


def check_large_bodies(endpoint: str, paths: TwinPaths, assistant: openai.OpenAI) -> None:
    """Send large and half-sent bodies without a key, while a client with a key gets its answer."""
    with ThreadPoolExecutor() as pool:
        half_sent = pool.submit(large_bodies.answers, endpoint, 200, 7 * large_bodies.MIB, 3 << 20)
        began = time.monotonic()
        ask(assistant)
        assert time.monotonic() - began < REFUSED_WITHIN_SECONDS
        refused = half_sent.result()
    assert {status for status, _ in refused} == {401}
    assert max(seconds for _, seconds in refused) < REFUSED_WITHIN_SECONDS
    whole = 64 * large_bodies.MIB
    ((status, seconds),) = large_bodies.answers(endpoint, 1, whole, whole)
    assert (status, seconds < REFUSED_WITHIN_SECONDS) == (413, True)
    assert max(large_bodies.memory_of_routers(paths)) < 1


def test_teams_have_keys_models_limits_and_records_of_what_they_used(
    checkout, paths, client, speaker, series_are_recorded
):
    up = output_of(checkout, paths, "up", *STACK)
    assert "Models   llama-3.1-8b, support" in up, "up lends itself a key of a team"
    endpoint = (paths.root.parent / "clients" / "endpoint").read_text().strip()
    key = output_of(checkout, paths, "clients", "keys", "create", "assistant", *STACK).strip()
    assistant = client(endpoint, key)
    until_keys_are_read(paths)

    whole = ask(assistant)
    assert whole.usage is not None
    assert whole.usage.completion_tokens == 8
    response = assistant.responses.create(model=MODEL, input="Which keys?", max_output_tokens=8)
    assert response.usage is not None
    assert response.usage.output_tokens == 8
    assert response.output_text
    chunks = list(ask(assistant, stream=True))
    assert all(chunk.usage is None for chunk in chunks), "nobody asked for usage"
    assert [model.id for model in assistant.models.list().data] == [MODEL, "support"]
    with pytest.raises(openai.NotFoundError, match="does not exist or you do not have access"):
        ask(assistant, "sql")
    with pytest.raises(openai.AuthenticationError):
        ask(client(endpoint, "none"))

    check_apis(paths, endpoint, key, assistant, speaker)
    check_large_bodies(endpoint, paths, assistant)

    assert cache_status(assistant) == "gke-inference; fwd=miss"
    assert cache_status(assistant).startswith("gke-inference; hit")

    batch = output_of(checkout, paths, "clients", "keys", "create", "evaluation", *STACK).strip()
    other = client(endpoint, batch)
    until_keys_are_read(paths)
    with pytest.raises(openai.RateLimitError, match="has used its tokens for this month"):
        ask_again_and_again(other)
    spent = apis.error_of(speaker(endpoint, batch), MODEL, apis.QUESTION)
    assert spent == ("RateLimitError", "rate_limit_error")
    ask(assistant)  # another team's month is its own
    check_spent_budget(checkout, paths, endpoint, client, speaker)

    check_records(checkout, paths, assistant)

    listed = json.loads(output_of(checkout, paths, "clients", "keys", "list", "-o", "json", *STACK))
    assert sorted(each["team"] for each in listed) == ["assistant", "evaluation", "trial"]
    assert key not in json.dumps(listed)
    output_of(checkout, paths, "clients", "keys", "revoke", key.split("_")[1], *STACK)
    assert until_it_is(False, assistant) <= REVOKED_WITHIN_SECONDS

    records = [one for one in usage(paths) if one["key_id"] == key.split("_")[1]]
    answered = [one for one in records if one["status"] == 200 and one["model"] == MODEL]
    assert [one["stream"] for one in answered].count(True) == 1
    assert {one["completion_tokens"] for one in answered} == {8}
    assert not any(one["estimated"] for one in answered)
    assert all(one["usd"] > 0 for one in answered)
    key = output_of(checkout, paths, "clients", "keys", "create", "assistant", *STACK).strip()
    until_keys_are_read(paths)
    check_stalled_streams(paths, client(endpoint, key), model=MODEL, deployment="llama-3-1-8b")
    series_are_recorded(paths, "clients")
    assert "Nothing is left in the cloud." in output_of(checkout, paths, "down")
