"""Batches over a bucket's protocol: each request once in the output, whoever dies."""

import contextlib
import json
import random
import socket
import threading
import time
import urllib.request
from typing import Any

import openai
import pytest

from tests.running.batch.world import World, client, jsonl, line, over, read, submit
from tests.running.programs import until

pytestmark = pytest.mark.needs_tools


def test_a_batch_is_answered_line_by_line_in_the_published_form(world: World) -> None:
    def answer(body: dict[str, Any], _: int) -> tuple[int, dict[str, str], bytes]:
        if body["prompt"] == "1":
            return 400, {"x-request-id": "req_b"}, b'{"error": {"code": "too_long"}}'
        return 200, {"x-request-id": "req_a"}, b'{"choices": []}'

    world.model.answer = answer
    api = client(world.serve())
    world.work()
    batch = submit(api, jsonl([line(0), b"\n", line(1), line(2)]))
    assert (batch.object, batch.status, batch.metadata) == ("batch", "validating", {"n": "1"})
    done = over(api, batch)
    assert done.status == "completed"
    assert done.request_counts.to_dict() == {"total": 3, "completed": 2, "failed": 1}
    stamps = (done.created_at, done.in_progress_at, done.finalizing_at, done.completed_at)
    assert list(stamps) == sorted(stamps)
    assert done.expires_at == done.created_at + 24 * 3600
    output = read(api, done.output_file_id)
    assert [each["custom_id"] for each in output] == ["r0", "r2"]
    assert output[0]["id"].startswith("batch_req_")
    response = {"status_code": 200, "request_id": "req_a", "body": {"choices": []}}
    assert (output[0]["response"], output[0]["error"]) == (response, None)
    (failure,) = read(api, done.error_file_id)
    assert failure["custom_id"] == "r1"
    assert failure["response"]["status_code"] == 400
    assert failure["response"]["body"] == {"error": {"code": "too_long"}}
    _, _, headers = world.model.asked[0]
    assert headers["x-gateway-inference-objective"] == "llama-batch"
    until(lambda: not world.objects("open/") and not world.objects("work/"))
    assert [each.id for each in api.batches.list()] == [batch.id]


def test_every_request_is_once_in_the_output_though_service_and_workers_are_killed(
    world: World,
) -> None:
    lines = 120

    def answer(body: dict[str, Any], _: int) -> tuple[int, dict[str, str], bytes]:
        time.sleep(0.03)
        return 200, {}, json.dumps({"said": body["prompt"]}).encode()

    world.model.answer = answer
    services = [world.serve(), world.serve()]
    workers = [world.work(), world.work()]
    batch = submit(client(services[0]), jsonl([line(each) for each in range(lines)]))
    chosen = random.Random(5)
    for _ in range(3):
        at = len(world.model.asked)
        until(lambda at=at: len(world.model.asked) >= min(lines, at + 15))
        dead = workers.pop(chosen.randrange(len(workers)))
        dead.kill()
        workers.append(world.work())
    services[0].kill()
    done = over(client(services[1]), batch, 60)
    assert done.status == "completed"
    assert done.request_counts.to_dict() == {"total": lines, "completed": lines, "failed": 0}
    output = read(client(services[1]), done.output_file_id)
    said = {each["custom_id"]: each["response"]["body"]["said"] for each in output}
    assert len(output) == lines
    assert said == {f"r{each}": str(each) for each in range(lines)}
    # twice asked is only what was under way, or not yet kept, when a worker died
    assert len(world.model.asked) - lines <= 3 * (16 + 16)


def test_an_answer_that_is_kept_is_not_asked_for_again(world: World) -> None:
    hold = threading.Event()

    def answer(body: dict[str, Any], _: int) -> tuple[int, dict[str, str], bytes]:
        if body["prompt"] == "7":
            hold.wait(30)
        return 200, {}, b"{}"

    world.model.answer = answer
    api = client(world.serve())
    first = world.work()
    batch = submit(api, jsonl([line(each) for each in range(10)]))

    def completed() -> int:
        counts = api.batches.retrieve(batch.id).request_counts
        return 0 if counts is None else counts.completed

    until(lambda: completed() >= 8, 20)
    first.kill()
    hold.set()
    world.work()
    assert over(api, batch).request_counts.completed == 10
    asked = sorted(world.model.prompts(), key=int)
    assert set(asked) == {str(each) for each in range(10)}
    assert len(asked) <= 12
    assert asked.count("0") == 1


def test_a_worker_that_is_told_to_go_gives_its_shard_back_at_once(world: World) -> None:
    hold = threading.Event()

    def answer(_: dict[str, Any], __: int) -> tuple[int, dict[str, str], bytes]:
        hold.wait(20)
        return 200, {}, b"{}"

    world.model.answer = answer
    api = client(world.serve(lease_seconds=600))
    first = world.work(lease_seconds=600)
    batch = submit(api, jsonl([line(each) for each in range(10)]))
    until(lambda: len(world.model.asked) == 2)  # an adaptive limit begins with two
    first.terminate()
    time.sleep(0.3)
    hold.set()
    assert first.process.wait(20) == 0
    assert "returned" in [each["message"] for each in first.lines()]
    begun = len(world.model.asked)
    assert begun == 2
    world.work(lease_seconds=600)
    assert over(api, batch).request_counts.completed == 10
    assert len(world.model.asked) == 10


def test_a_cancelled_batch_keeps_what_was_answered_and_asks_no_more(world: World) -> None:
    def answer(_: dict[str, Any], __: int) -> tuple[int, dict[str, str], bytes]:
        time.sleep(0.1)
        return 200, {}, b"{}"

    world.model.answer = answer
    api = client(world.serve())
    world.work(max_in_flight=2)
    batch = submit(api, jsonl([line(each) for each in range(200)]))
    until(lambda: len(world.model.asked) >= 15)
    assert api.batches.cancel(batch.id).status == "cancelling"
    done = over(api, batch)
    assert done.status == "cancelled"
    count = done.request_counts.completed
    assert 15 <= count < 100
    assert len(read(api, done.output_file_id)) == count == len(world.model.asked)
    assert done.error_file_id is None
    other = submit(api, jsonl([line(0)]))
    over(api, other)
    with pytest.raises(openai.ConflictError, match="Cannot cancel a batch with status 'completed'"):
        api.batches.cancel(other.id)


def test_a_batch_that_is_out_of_time_has_the_rest_in_its_file_of_failures(world: World) -> None:
    world.model.answer = lambda _, number: (200, {}, b"{}") if number <= 5 else (503, {}, b"{}")
    api = client(world.serve(window_seconds=4))
    worker = world.work(window_seconds=4)
    batch = submit(api, jsonl([line(each) for each in range(25)]))
    done = over(api, batch)
    assert done.status == "expired"
    assert done.request_counts.to_dict() == {"total": 25, "completed": 5, "failed": 20}
    assert len(read(api, done.output_file_id)) == 5
    failures = read(api, done.error_file_id)
    assert {each["error"]["code"] for each in failures} == {"batch_expired"}
    assert {each["response"] for each in failures} == {None}
    ids = {each["custom_id"] for each in [*failures, *read(api, done.output_file_id)]}
    assert len(ids) == 25
    assert worker.metric('gke_inference_batch_retries_total{status="503"}') > 0


def test_a_request_that_breaks_the_engine_fails_alone_after_its_attempts(world: World) -> None:
    world.model.answer = lambda body, _: None if body["prompt"] == "1" else (200, {}, b"{}")
    api = client(world.serve())
    world.work(attempts=3)
    done = over(api, submit(api, jsonl([line(0), line(1)])))
    (failure,) = read(api, done.error_file_id)
    assert (failure["custom_id"], failure["error"]["code"]) == ("r1", "server_error")
    assert world.model.prompts().count("1") == 3


def test_an_input_with_wrong_lines_fails_before_anything_is_asked(world: World) -> None:
    api = client(world.serve())
    world.work()
    batch = submit(
        api,
        jsonl(
            [
                line(0),
                b"no json\n",
                line(0),
                line(2, url="/v1/chat/completions"),
                line(3, body={"model": "gpt-5"}),
                {"custom_id": "r4", "method": "POST", "url": "/v1/completions"},
            ]
        ),
    )
    done = over(api, batch)
    assert done.status == "failed"
    assert [(each.code, each.line, each.param) for each in done.errors.data] == [
        ("invalid_json_line", 2, None),
        ("duplicate_custom_id", 3, "custom_id"),
        ("invalid_url", 4, "url"),
        ("model_not_found", 5, "model"),
        ("missing_required_parameter", 6, "body"),
    ]
    assert world.model.asked == []
    assert done.output_file_id is None


def test_a_line_that_never_ends_fails_a_batch_without_being_read_to_its_end(world: World) -> None:
    api = client(world.serve())
    batch = submit(api, b'{"custom_id": "' + b"x" * (80 * 2**20))
    began = time.monotonic()
    done = over(api, batch)
    assert [(each.code, each.line) for each in done.errors.data] == [("request_too_large", 1)]
    assert time.monotonic() - began < 10


def test_a_team_finds_neither_files_nor_batches_of_another(world: World) -> None:
    service = world.serve(teams={"red": None, "blue": ["embed"]})
    world.work()
    red, blue = client(service, "red"), client(service, "blue")
    batch = submit(red, jsonl([line(0)]))
    done = over(red, batch)
    assert [each.id for each in blue.files.list()] == []
    assert list(blue.batches.list()) == []
    for call in (
        lambda: blue.files.retrieve(done.output_file_id),
        lambda: blue.files.content(done.output_file_id),
        lambda: blue.files.delete(batch.input_file_id),
        lambda: blue.batches.retrieve(batch.id),
        lambda: blue.batches.cancel(batch.id),
    ):
        with pytest.raises(openai.NotFoundError):
            call()
    with pytest.raises(openai.BadRequestError, match="no such file"):
        blue.batches.create(
            input_file_id=batch.input_file_id,
            endpoint="/v1/embeddings",
            completion_window="24h",
        )
    failed = over(blue, submit(blue, jsonl([line(0, url="/v1/embeddings")]), "/v1/embeddings"))
    assert failed.errors.data[0].code == "model_not_found"
    with pytest.raises(openai.AuthenticationError):
        client(service).files.list()
    with pytest.raises(openai.AuthenticationError):
        client(service, "green").files.list()


def test_files_are_listed_read_and_deleted_but_not_under_an_open_batch(world: World) -> None:
    api = client(world.serve(max_bytes=2**20))
    content = jsonl([line(0)])
    file = api.files.create(
        file=("in.jsonl", content),
        purpose="batch",
        expires_after={"anchor": "created_at", "seconds": 172_800},
    )
    assert (file.bytes, file.filename, file.purpose) == (len(content), "in.jsonl", "batch")
    assert file.expires_at == file.created_at + 172_800
    assert api.files.content(file.id).read() == content
    batch = api.batches.create(
        input_file_id=file.id, endpoint="/v1/completions", completion_window="24h"
    )
    with pytest.raises(openai.BadRequestError, match=f"is the input of {batch.id}"):
        api.files.delete(file.id)
    world.work()
    over(api, batch)
    until(lambda: not world.objects("open/"))
    assert api.files.delete(file.id).deleted
    assert file.id not in [each.id for each in api.files.list()]
    with pytest.raises(openai.BadRequestError, match="purpose: must be batch"):
        api.files.create(file=("a", b"a"), purpose="assistants")
    with pytest.raises(openai.APIStatusError, match="larger than 1 MiB") as refused:
        api.files.create(file=("a", b"a" * (2**20 + 1)), purpose="batch")
    assert refused.value.status_code == 413


def test_a_form_has_few_and_short_fields(world: World) -> None:
    api = client(world.serve())
    with pytest.raises(openai.BadRequestError, match="is longer than 1000 bytes"):
        api.files.create(file=("a", b"a"), purpose="batch", extra_body={"x": "y" * 3000})
    many = {f"x{number}": "y" for number in range(25)}
    with pytest.raises(openai.BadRequestError, match="more than 20 fields"):
        api.files.create(file=("a", b"a"), purpose="batch", extra_body=many)


def test_a_ninth_upload_at_once_is_refused_for_a_while(world: World) -> None:
    service = world.serve()
    api = client(service)
    head = (
        "POST /v1/files HTTP/1.1\r\nhost: a\r\ncontent-length: 99999\r\n"
        "content-type: multipart/form-data; boundary=b\r\n\r\n--b\r\n"
    )
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", service.port)))
            slow.sendall(head.encode())
        time.sleep(0.5)
        with pytest.raises(openai.RateLimitError, match="More than 8 files") as refused:
            api.files.create(file=("a", b"a"), purpose="batch")
        assert refused.value.response.headers["retry-after"] == "5"
    time.sleep(0.5)
    assert api.files.create(file=("a", b"a"), purpose="batch").bytes == 1


def test_a_download_whose_file_is_deleted_breaks_off_without_another_content(
    world: World,
) -> None:
    service = world.serve()
    api = client(service)
    content = random.Random(3).randbytes(64 * 2**20)
    file = api.files.create(file=("in.jsonl", content), purpose="batch")
    got = b""
    url = f"{service.url}/files/{file.id}/content"
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - of this machine
        got += answer.read(2**16)
        (name,) = world.objects("files/")
        world.delete(name)
        with contextlib.suppress(ConnectionError):
            while piece := answer.read(2**16):
                got += piece
    assert 0 < len(got) < len(content)
    assert content.startswith(got)


def test_an_endpoint_that_no_model_answers_is_refused_with_those_that_one_does(
    world: World,
) -> None:
    api = client(world.serve())
    with pytest.raises(openai.BadRequestError, match="no model of this platform answers") as error:
        submit(api, jsonl([line(0)]), "/v1/responses")
    assert "Use /v1/chat/completions or /v1/completions or /v1/embeddings" in str(error.value)
    with pytest.raises(openai.BadRequestError, match="must be one of /v1/chat/completions"):
        submit(api, jsonl([line(0)]), "/v1/moderations")


def test_the_service_reports_the_backlog_and_the_use_of_the_window(world: World) -> None:
    service = world.serve(replicas=2)
    submit(client(service), jsonl([line(each) for each in range(30)]))
    until(lambda: service.metric("gke_inference_batch_backlog") == 15)
    assert 0 < service.metric("gke_inference_batch_window_used_ratio") < 0.01
    world.work()
    until(lambda: service.metric("gke_inference_batch_backlog") == 0)
    until(lambda: service.metric('gke_inference_batch_batches_total{status="completed"}') == 1)


def test_settings_that_cannot_be_used_end_the_program_with_one_line(world: World) -> None:
    with pytest.raises(AssertionError, match="models: must have one or more, got none"):
        world.serve(models={})
    assert world.programs[-1].process.returncode == 2
