"""Batches on the whole platform: OpenAI's client, the real gateway, and people beside them."""

import os
import signal
import time

import openai
import pytest
from openai.types.responses import Response

from tests.platform.batch.rig import CHAT, MODEL, chat, client, pids
from tests.platform.faults.rig import NO_L4, NO_OTHER_TPU, TPU
from tests.platform.people import TTFT_SLO_MS, People
from tests.running.batch.world import jsonl, over, read, submit
from tests.running.programs import until
from twin.world.capacity import StockLine

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(14_400)]

NO_SPOT_L4 = StockLine(zone="*", accelerator="nvidia-l4", provisioning="spot", chips=0)
LINES = 600
"""More than one worker's share, so that there are two, and enough to be at work for two kills."""


def answered(api, batch) -> int:
    return api.batches.retrieve(batch.id).request_counts.completed


# tests/running/batch kills both as well, with a lease that is shorter than the product's minute
@pytest.mark.parametrize(
    ("count", "kills"),
    [
        pytest.param(400, {"serve": 0.1}, id="service"),
        pytest.param(LINES, {"work": 0.1, "serve": 0.2}, id="both", marks=pytest.mark.soak),
    ],
)
def test_a_batch_is_answered_once_each_beside_people_while_service_and_workers_die(
    platform, count, kills
):
    api = client(platform.url)
    # what is not of batches stays where it was
    assert MODEL in [model.id for model in api.models.list()]
    with pytest.raises(openai.NotFoundError):
        api.files.retrieve("file-none")
    with pytest.raises(openai.BadRequestError, match="no model of this platform answers"):
        submit(api, jsonl([chat(0)]), "/v1/embeddings")
    lines = [chat(number) for number in range(count)]
    lines[7] = chat(7, max_tokens=-1)
    people = People(api, MODEL)
    try:
        batch = submit(api, jsonl(lines), CHAT)
        for role, share in kills.items():
            # the lines of a killed worker wait for the end of its lease, a minute
            # a wait for one more answer would never end if the last of them came meanwhile
            until(lambda: answered(api, batch) >= share * count, 150)  # noqa: B023 - in this round
            until(lambda: pids(platform.paths, role), 60)  # noqa: B023 - called in this round
            assert answered(api, batch) < count - 1
            os.kill(pids(platform.paths, role)[0], signal.SIGKILL)
        done = over(api, batch, 300)
    finally:
        people.stop()
    assert done.status == "completed"
    counts = {"total": count, "completed": count - 1, "failed": 1}
    assert done.request_counts.to_dict() == counts
    output = read(api, done.output_file_id)
    assert [each["custom_id"] for each in output] == [f"r{n}" for n in range(count) if n != 7]
    assert all(each["response"]["body"]["choices"] for each in output)
    (failure,) = read(api, done.error_file_id)
    assert (failure["custom_id"], failure["response"]["status_code"]) == ("r7", 400)
    assert people.failed == []
    assert people.answered >= 10


def test_a_batch_of_responses_is_answered_as_openais_client_reads_them(platform):
    api = client(platform.url)
    asked = [{"model": MODEL, "input": f"Sum up {at}", "max_output_tokens": 16} for at in range(3)]
    path = "/v1/responses"
    lines = [
        {"custom_id": f"r{at}", "method": "POST", "url": path, "body": body}
        for at, body in enumerate(asked)
    ]
    done = over(api, submit(api, jsonl(lines), path), 120)
    assert done.request_counts.to_dict() == {"total": 3, "completed": 3, "failed": 0}
    for each in read(api, done.output_file_id):
        found = Response.model_validate(each["response"]["body"])
        assert found.output_text
        assert found.usage is not None
        assert found.usage.output_tokens <= 16


def test_what_the_tests_of_alerts_know_of_series_is_what_the_stack_exports(
    platform, series_are_recorded
):
    series_are_recorded(platform.paths, "batch")


def through_preemptions(platform, api, batch, lines, shares, on_spot):
    """Take the spot machine away at each share of the lines, and return the ended batch."""
    for share in shares:
        until(lambda: answered(api, batch) >= share * lines, 7200)  # noqa: B023 - in this round
        until(on_spot, 300)
        platform.world(TPU, NO_OTHER_TPU, NO_L4, NO_SPOT_L4)  # taken away, and none to be had
        until(lambda: not on_spot(), 60)
        seen = answered(api, batch)
        until(lambda: answered(api, batch) > seen, 300)  # noqa: B023 - called in this round
        platform.world(TPU, NO_OTHER_TPU, NO_L4)
    return over(api, batch, 7200)


@pytest.mark.soak  # tests/platform/faults preempts a node, the test above kills processes
@pytest.mark.parametrize(
    ("lines", "shares"),
    [
        pytest.param(1500, (0.05,), id="short"),
        pytest.param(50_000, (0.1, 0.4), id="full"),
    ],
)
def test_every_request_has_one_line_through_preemptions_and_a_stockout(
    platform, lines, shares, record_property
):
    def on_spot():
        return [pod for pod in platform.ready() if "-gpu-" in pod]

    api = client(platform.url)
    until(on_spot, 120)
    began = time.monotonic()
    people = People(api, MODEL)
    try:
        batch = submit(api, jsonl([chat(number) for number in range(lines)]), CHAT)
        done = through_preemptions(platform, api, batch, lines, shares, on_spot)
    finally:
        people.stop()
    seconds = time.monotonic() - began
    assert (done.status, done.error_file_id) == ("completed", None)
    assert done.request_counts.to_dict() == {"total": lines, "completed": lines, "failed": 0}
    output = read(api, done.output_file_id)
    assert [each["custom_id"] for each in output] == [f"r{number}" for number in range(lines)]
    assert all(each["response"]["body"]["choices"] for each in output)
    # preemption ends requests in flight, of people too; the client asks again
    assert len(people.failed) <= max(2, 0.01 * people.answered), people.failed
    if len(shares) > 1:  # a soak run; a short one says more about the other tests on the machine
        assert people.ttft_p95_ms <= TTFT_SLO_MS
    record_property(
        "figures",
        f"{lines:,} requests, one line each, in {seconds:.0f} s; beside it, {people.answered:,} "
        f"answers to people, p95 TTFT {people.ttft_p95_ms:.0f} ms",
    )
