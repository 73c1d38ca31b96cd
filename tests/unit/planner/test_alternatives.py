"""Services that fit better than a platform on GKE, each with the numbers that say so."""

from typing import Any

import pytest

from gke_inference.sizing.architectures import find
from planner.choice.alternatives import Alternative, alternatives, cloud_run_price
from planner.choice.plan import Plan, plan
from planner.fit.tables import table
from tests.unit.planner.questions import question
from twin.host.paths import REPOSITORY


def planned(name: str = "llama-3.1-8b", **changes: Any) -> Plan:
    return plan(question(name, **{"rate": 0.01, **changes}))


def found(answer: Plan) -> dict[str, Alternative]:
    return {one.name: one for one in alternatives(answer)}


def hourly(answer: Plan) -> float:
    price = answer.choices[0].usd_per_hour
    assert price is not None
    return price.value


def awake(accelerator: str = "nvidia-l4") -> float:
    """Return the price of an instance for an hour."""
    price = cloud_run_price(accelerator)
    assert price is not None
    return price.usd


def test_an_instance_costs_its_gpu_processors_and_memory_while_it_is_awake():
    assert awake() == pytest.approx(0.67212 + 0.5184 + 0.2304)
    assert awake("nvidia-rtx-pro-6000") == pytest.approx(1.31479 + 1.296 + 0.576, abs=1e-4)


def test_little_traffic_for_a_small_model_is_sent_to_something_that_scales_to_zero():
    answer = planned()
    assert list(found(answer)) == ["Cloud Run"]
    hours = 24 * hourly(answer) / awake()
    reason = found(answer)["Cloud Run"].reason
    assert reason.startswith(f"cheaper if requests come in fewer than {hours:.1f} hours a day: ")
    assert f"the replica here ${hourly(answer):.2f} in every hour" in reason


def test_an_instance_that_costs_less_than_a_replica_is_cheaper_even_all_day():
    answer = planned(accelerators=("nvidia-rtx-pro-6000",), provisioning=("on-demand",))
    assert awake("nvidia-rtx-pro-6000") < hourly(answer)
    assert found(answer)["Cloud Run"].reason.startswith("cheaper even all day: ")


def test_a_model_beyond_an_l4_is_compared_with_the_larger_gpu():
    reason = found(planned("qwen3-32b"))["Cloud Run"].reason
    assert "one nvidia-rtx-pro-6000 costs $3.19 an hour there" in reason


def test_a_model_that_one_gpu_cannot_serve_is_not_sent_to_cloud_run():
    assert "Cloud Run" not in found(planned("qwen3-235b-a22b"))


def test_a_model_that_vertex_serves_is_compared_by_its_tokens():
    answer = planned("llama-3.3-70b", rate=0.5)
    one = found(answer)["Vertex AI"]
    assert "at 0.2 requests/s on average (40% of the peak)" in one.reason
    assert "costs $0.62 an hour, at $0.72 and $0.72 per million tokens" in one.reason
    limit = hourly(answer) / 3600 / (1200 * 0.72e-6)
    assert f"cheaper below {limit:.2g} requests/s" in one.reason
    assert one.source.endswith("(secondary)")


def test_traffic_for_which_replicas_are_cheaper_is_not_sent_to_vertex():
    assert "Vertex AI" not in found(planned("llama-3.3-70b", rate=50, provisioning=("spot",)))


def test_a_model_that_vertex_does_not_list_is_not_sent_there():
    assert "Vertex AI" not in found(planned("qwen3-32b"))


def test_every_model_that_vertex_lists_is_one_of_ours_and_has_a_price():
    for name, prices in table("alternatives")["vertex"]["models"].items():
        assert find(name) is not None
        assert 0 < prices["input"] <= prices["output"]


def test_a_busy_platform_is_not_sent_elsewhere():
    assert found(planned(rate=200)) == {}


def test_work_that_fills_many_hosts_while_nobody_waits_is_sent_to_a_batch_scheduler():
    answer = planned("llama-3.3-70b", rate=5000, ttft_p95_ms=120_000, tpot_p95_ms=1000)
    chips = answer.choices[0].candidate.form.chips * answer.choices[0].replicas
    reason = found(answer)["Cluster Director with Slurm"].reason
    assert f"(120 s) and the work fills {chips} chips at once" in reason
    assert chips >= 64
    patient = planned("llama-3.3-70b", rate=5000, ttft_p95_ms=30_000, tpot_p95_ms=1000)
    assert "Cluster Director with Slurm" not in found(patient)


def test_a_plan_that_cannot_keep_its_promise_has_no_alternatives():
    assert alternatives(planned("llama-3.3-70b", ttft_p95_ms=1, tpot_p95_ms=0.1)) == []


@pytest.mark.parametrize(
    ("name", "rate", "service"),
    [("llama-3.1-8b", 0.01, "Cloud Run"), ("llama-3.3-70b", 0.5, "Vertex AI")],
)
def test_the_page_of_the_landscape_quotes_what_a_plan_says(name: str, rate: float, service: str):
    page = " ".join((REPOSITORY / "docs" / "landscape.md").read_text().split())
    reason = found(planned(name, rate=rate, regions=()))[service].reason
    said = reason.removesuffix(". Add it to `backends` to keep the endpoint")
    assert f"Consider {service}: {said}" in page
