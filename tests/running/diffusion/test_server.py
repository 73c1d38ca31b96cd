"""The server program, with a pipeline that draws texts."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.running.diffusion.conftest import drawn

pytestmark = pytest.mark.needs_tools  # server and workers as processes


def test_a_request_gets_as_many_pictures_as_it_asked_for_each_with_its_seed(server):
    answer = server.ask(prompt="a red bicycle", n=3, seed=7)
    assert [each["seed"] for each in drawn(answer)] == [7, 8, 9]
    body = answer[1]
    assert [each["seed"] for each in body["data"]] == [7, 8, 9]
    assert (body["size"], body["output_format"], body["model"]) == ("64x64", "png", "flux")


def test_four_chips_draw_four_candidates_of_one_request_at_once(serve):
    server = serve(workers=4)
    server.until(lambda: server.metric('diffusion_workers{state="ready"}') == 4)
    pictures = drawn(server.ask(prompt="a red bicycle", n=4))
    assert len({each["pid"] for each in pictures}) == 4
    assert {each["batch"] for each in pictures} == {1}


def test_what_waits_for_a_busy_chip_is_drawn_together(serve, tmp_path):
    server = serve(max_batch=3).ready()
    gate, held = server.hold(tmp_path)
    others = [server.begin(prompt=str(number)) for number in range(5)]
    server.wait_for(5)
    gate.touch()
    assert drawn(held.result())[0]["batch"] == 1
    assert sorted(drawn(one.result())[0]["batch"] for one in others) == [2, 2, 3, 3, 3]


def test_an_adapter_is_named_in_place_of_the_model_and_never_shares_a_batch(serve, tmp_path):
    server = serve(adapters={"comic": "/nowhere"}).ready()
    gate, held = server.hold(tmp_path)
    asked = [server.begin(prompt="x", model=name) for name in ("comic", "flux", "comic")]
    server.wait_for(3)
    gate.touch()
    held.result()
    found = [drawn(one.result())[0] for one in asked]
    assert [(each["adapters"], each["batch"]) for each in found] == [
        ({"comic": 1.0}, 2),
        ({}, 1),
        ({"comic": 1.0}, 2),
    ]
    listed = json.loads(server.get("/v1/models")[1])["data"]
    assert [(each["id"], each.get("parent")) for each in listed] == [
        ("flux", None),
        ("comic", "flux"),
    ]


def test_adapters_of_a_request_reach_the_chip_with_their_weights(serve):
    both = {"comic": "/nowhere", "noir": "/nowhere"}
    server = serve(adapters=both, max_adapters=2).ready()
    found = server.ask(prompt="x", adapter_names=["noir", "comic"], adapter_weights=[0.7, 0.4])
    assert drawn(found)[0]["adapters"] == {"noir": 0.7, "comic": 0.4}
    refused = {"prompt": "x", "adapter_names": ["noir", "nobody"]}
    assert server.ask(**refused)[0] == 404


def test_every_chip_draws_with_each_of_several_models(serve, tmp_path):
    also = [{"model": "mini", "folder": str(tmp_path / "mini"), "steps": 2}]
    (tmp_path / "mini").mkdir()
    server = serve(base_models=also, steps=4).ready()
    gate, held = server.hold(tmp_path)
    asked = [server.begin(prompt="x", model=name) for name in ("mini", "flux", "mini")]
    server.wait_for(3)
    gate.touch()
    first = drawn(held.result())[0]
    found = [drawn(one.result())[0] for one in asked]
    assert [(each["folder"], each["batch"]) for each in found] == [
        (str(tmp_path / "mini"), 2),
        (str(server.folder), 1),
        (str(tmp_path / "mini"), 2),
    ]
    assert {each["pid"] for each in found} == {first["pid"]}
    listed = json.loads(server.get("/v1/models")[1])["data"]
    assert [(each["id"], each.get("parent")) for each in listed] == [("flux", None), ("mini", None)]
    page = server.get("/metrics")[1]
    assert 'diffusion_images_total{model_name="mini",outcome="drawn"} 2.0' in page
    assert 'diffusion_request_seconds_count{model_name="mini"} 2.0' in page


def each_on_its_chip(tmp_path, *names):
    """Return settings of a server whose first model and further ones have a chip each."""
    for name in names:
        (tmp_path / name).mkdir()
    also = [{"model": name, "folder": str(tmp_path / name), "chips": 1} for name in names]
    return {"base_models": also, "chips": 1, "steps": 4, "workers": len(names) + 1}


def test_each_of_several_models_is_in_a_process_of_its_own(serve, tmp_path):
    names = ["dev", "krea", "xl"]
    server = serve(**each_on_its_chip(tmp_path, *names)).ready()
    page = server.get("/metrics")[1]
    for name in ("flux", *names):
        assert f'diffusion_model_workers{{model_name="{name}",state="ready"}} 1.0' in page
    found = {name: drawn(server.ask(prompt="x", n=2, model=name)) for name in ("flux", *names)}
    pids = {name: {each["pid"] for each in images} for name, images in found.items()}
    assert [len(each) for each in pids.values()] == [1, 1, 1, 1]
    assert len(set.union(*pids.values())) == 4
    assert [found[name][0]["folder"] for name in names] == [str(tmp_path / n) for n in names]
    stages = json.loads(server.get("/health")[1])["workers"]
    assert stages == {"0": "ready", "1": "ready", "2": "ready", "3": "ready"}


def test_a_model_whose_queue_is_full_leaves_the_others_their_chips_and_queues(serve, tmp_path):
    given = each_on_its_chip(tmp_path, "dev")
    server = serve(**given, queue_limit=4, max_candidates=2).ready()
    gate = tmp_path / "gate"
    held = server.begin(prompt=f"hold {gate}", model="dev")
    server.until(lambda: server.metric("diffusion_images_running") == 1)
    waiting = server.begin(prompt="x", n=2, model="dev")
    server.until(
        lambda: server.metric('diffusion_model_images_waiting{model_name="dev"}') == 2,
    )
    status, body, _ = server.ask(prompt="x", model="dev")
    assert (status, body["error"]["message"]) == (429, "2 images wait; the queue holds 2")
    assert drawn(server.ask(prompt="x", n=2))
    gate.touch()
    assert len(drawn(held.result()) + drawn(waiting.result())) == 3


def test_a_killed_process_takes_one_model_with_it_until_it_is_started_again(serve, tmp_path):
    server = serve(**each_on_its_chip(tmp_path, "dev"), timeout_seconds=60).ready()
    gate = tmp_path / "gate"
    lost = server.begin(prompt=f"hold {gate}", model="dev", seed=8)
    server.until(lambda: server.metric("diffusion_images_running") == 1)
    waits = server.begin(prompt="x", model="dev", num_inference_steps=2)
    server.wait_for(1)
    victim = int((tmp_path / "dev" / "drawing-8").read_text())
    os.kill(victim, signal.SIGKILL)
    assert lost.result()[0] == 500
    assert drawn(server.ask(prompt="y"))
    assert server.get("/health")[0] == 200
    assert drawn(waits.result())[0]["pid"] != victim


def test_a_model_that_cannot_be_loaded_leaves_the_others_serving(serve, tmp_path):
    (tmp_path / "broken").mkdir()
    also = [{"model": "broken", "folder": str(tmp_path / "broken"), "chips": 1}]
    server = serve(base_models=also, chips=1, workers=2)
    stage = server.until(
        lambda: "ended 3 times" in (found := server.get("/health"))[1] and found,
    )
    assert stage[0] == 200
    assert drawn(server.ask(prompt="x"))
    status, body, headers = server.ask(prompt="x", model="broken")
    assert (status, body["error"]["code"], headers["Retry-After"]) == (503, "broken", "60")
    assert (
        'diffusion_model_workers{model_name="broken",state="broken"} 1.0'
        in (server.get("/metrics")[1])
    )
    assert server.get("/live")[0] == 200


def test_a_server_is_not_ready_before_every_model_is(serve, tmp_path):
    gate = tmp_path / "held" / "gate"
    gate.parent.mkdir()
    also = [{"model": "held", "folder": str(gate.parent), "chips": 1}]
    server = serve(base_models=also, chips=1, workers=2)
    server.until(lambda: server.metric('diffusion_workers{state="ready"}') == 1)
    assert server.get("/health")[0] == 503
    assert server.ask(prompt="x")[1]["error"]["code"] == "starting"
    gate.touch()
    assert drawn(server.ready().ask(prompt="x", model="held"))


def test_a_full_queue_says_when_to_come_back(serve, tmp_path):
    server = serve(queue_limit=2).ready()
    gate, held = server.hold(tmp_path)
    waiting = server.begin(prompt="x", n=2)
    server.wait_for(2)
    status, body, headers = server.ask(prompt="y")
    assert (status, body["error"]["type"]) == (429, "rate_limit_error")
    assert body["error"]["code"] == "queue_full"
    assert int(headers["Retry-After"]) >= 1
    gate.touch()
    assert len(drawn(held.result()) + drawn(waiting.result())) == 3


def test_a_client_that_goes_frees_its_chip_and_its_place_in_the_queue(server, tmp_path):
    cancelled = 'diffusion_images_total{model_name="flux",outcome="cancelled"}'
    before = server.metric(cancelled) or 0
    never = f"hold {tmp_path / 'never'}"
    leave_chip = server.hang_up_on(prompt=never)
    server.until(lambda: server.metric("diffusion_images_running") == 1)
    leave_queue = server.hang_up_on(prompt="y", n=2)
    server.wait_for(2)
    leave_queue()
    server.wait_for(0)
    leave_chip()
    server.until(lambda: server.metric("diffusion_images_running") == 0)
    assert (server.folder / "given-up").read_text() == never
    assert server.metric(cancelled) == before + 3
    assert drawn(server.ask(prompt="the chip is free"))


def test_a_request_that_takes_too_long_is_given_up(serve, tmp_path):
    server = serve(timeout_seconds=0.3).ready()
    status, body, _ = server.ask(prompt=f"hold {tmp_path / 'never'}")
    assert (status, body["error"]["code"]) == (504, "timeout")
    server.until(lambda: server.metric("diffusion_images_running") == 0)


def test_sigterm_finishes_what_is_there_and_takes_nothing_new(serve, tmp_path):
    server = serve().ready()
    gate, held = server.hold(tmp_path)
    waiting = server.begin(prompt="x")
    server.wait_for(1)
    server.process.send_signal(signal.SIGTERM)
    server.until(lambda: server.get("/health") and "draining" in server.get("/health")[1])
    assert server.ask(prompt="late")[0] == 503
    assert server.get("/live")[0] == 200
    gate.touch()
    assert len(drawn(held.result()) + drawn(waiting.result())) == 2
    assert server.process.wait(60) == 0


def test_a_worker_that_ends_fails_its_picture_and_is_started_again(server):
    status, body, _ = server.ask(prompt="die")
    assert (status, body["error"]["code"]) == (500, "worker_lost")
    server.ready()
    assert drawn(server.ask(prompt="again"))


def test_a_chip_whose_process_is_killed_fails_its_picture_only_and_comes_back(serve, tmp_path):
    server = serve(workers=2)
    server.until(lambda: server.metric('diffusion_workers{state="ready"}') == 2)
    gate = tmp_path / "gate"
    kept, lost = server.begin(prompt=f"hold {gate}"), server.begin(prompt=f"hold {gate}", seed=8)
    server.until(lambda: server.metric("diffusion_images_running") == 2)
    victim = Path(server.folder, "drawing-8").read_text()
    os.kill(int(victim), signal.SIGKILL)
    assert lost.result()[0] == 500
    assert server.get("/health")[0] == 200
    gate.touch()
    survivor = drawn(kept.result())[0]["pid"]
    server.until(lambda: server.metric('diffusion_workers{state="ready"}') == 2)
    pids = {each["pid"] for each in drawn(server.ask(prompt="again", n=2))}
    assert len(pids) == 2
    assert survivor in pids
    assert int(victim) not in pids


def test_what_waits_while_a_worker_ends_is_drawn_by_the_next_one(serve, tmp_path):
    server = serve(timeout_seconds=60).ready()
    gate, held = server.hold(tmp_path)
    ends = server.begin(prompt="die")
    server.wait_for(1)
    waits = server.begin(prompt="x", num_inference_steps=2)
    server.wait_for(2)
    gate.touch()
    held.result()
    assert ends.result()[0] == 500
    assert drawn(waits.result())


def test_a_model_that_cannot_be_loaded_is_broken_and_not_starting_for_ever(serve):
    server = serve(pipeline="tests.running.diffusion.fake:broken")
    server.until(lambda: server.get("/live")[0] == 503)
    status, body = server.get("/health")
    assert (status, json.loads(body)["status"]) == (503, "broken")


def test_what_the_pipeline_refuses_is_the_clients_error(server):
    status, body, _ = server.ask(prompt="refuse")
    assert (status, body["error"]["message"]) == (400, "adapter: must fit this model")


def test_a_line_of_the_log_has_the_trace_of_its_request(server):
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    server.ask(prompt="x", headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    told = [line for line in lines if line.get("trace_id") == trace]
    assert [line["outcome"] for line in told] == ["drawn"]
    assert {"time", "severity", "message"} <= set(told[0])


def test_stages_queue_and_pictures_are_measured(serve):
    server = serve().ready()
    drawn(server.ask(prompt="x", n=2, num_inference_steps=3))
    page = server.get("/metrics")[1]
    assert 'diffusion_stage_seconds_count{stage="denoise_step"} 3.0' in page
    assert 'diffusion_images_total{model_name="flux",outcome="drawn"} 2.0' in page
    assert 'diffusion_requests_total{code="200"} 1.0' in page
    assert "diffusion_queue_seconds_count 2.0" in page
    assert "diffusion_queue_limit 64.0" in page


def test_a_live_adapter_is_served_as_soon_as_it_is_there_and_forgotten_once_it_is_gone(
    serve, tmp_path
):
    live = tmp_path / "live"
    server = serve(live_adapters=str(live)).ready()
    assert server.ask(prompt="x", model="alice")[0] == 404
    (live / "alice").mkdir(parents=True)
    assert server.ask(prompt="x", model="alice")[0] == 404  # an upload that is under way
    weights = live / "alice" / "pytorch_lora_weights.safetensors"
    weights.touch()
    assert drawn(server.ask(prompt="x", model="alice"))[0]["adapters"] == {"alice": 1.0}
    listed = json.loads(server.get("/v1/models")[1])["data"]
    assert [each["id"] for each in listed] == ["flux", "alice"]
    weights.unlink()
    assert server.ask(prompt="x", model="alice")[0] == 404
    server.until((server.folder / "forgotten").exists)
    assert (server.folder / "forgotten").read_text() == "alice"
    assert server.get("/health")[0] == 200


def test_a_chip_forgets_an_adapter_that_is_gone_while_it_draws(serve, tmp_path):
    weights = tmp_path / "live" / "alice" / "w.safetensors"
    weights.parent.mkdir(parents=True)
    weights.touch()
    server = serve(live_adapters=str(tmp_path / "live")).ready()
    assert drawn(server.ask(prompt="x", model="alice"))
    gate, held = server.hold(tmp_path)
    weights.unlink()
    server.until((server.folder / "forgotten").exists)
    gate.touch()
    assert drawn(held.result())


def test_an_adapter_that_was_replaced_shares_no_batch_with_the_one_before(serve, tmp_path):
    weights = tmp_path / "live" / "alice" / "w.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_text("one")
    server = serve(live_adapters=str(tmp_path / "live")).ready()
    gate, held = server.hold(tmp_path)
    first = server.begin(prompt="x", model="alice")
    server.wait_for(1)
    weights.write_text("another")
    second = server.begin(prompt="x", model="alice")
    server.wait_for(2)
    gate.touch()
    held.result()
    assert [drawn(one.result())[0]["batch"] for one in (first, second)] == [1, 1]
