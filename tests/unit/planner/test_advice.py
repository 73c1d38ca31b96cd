"""Advice on roles, batches and adapters."""

import pytest

from planner.advice.batch import batch_costs
from planner.advice.kv_cache import KvAdvice, kv_advice
from planner.advice.roles import advise
from planner.choice.plan import Plan, plan
from tests.unit.planner.questions import question


def planned(name: str = "llama-3.1-8b", **changes) -> Plan:
    return plan(question(name, **changes))


def test_long_prompts_that_slow_down_answers_call_for_separate_roles():
    advice = advise(
        planned("llama-3.3-70b", rate=20, given=8000, made=300, tpot_p95_ms=18, ttft_p95_ms=3000,
                accelerators=("nvidia-h200-141gb",), provisioning=("spot",))
    )  # fmt: skip
    assert advice is not None
    assert advice.is_better
    assert advice.roles.keeps_promise
    assert advice.roles.prefill > advice.roles.decode >= 1
    assert advice.roles.prefill_high >= advice.roles.prefill


def test_short_prompts_of_a_small_model_do_not():
    advice = advise(planned(accelerators=("nvidia-h200-141gb",)))
    assert advice is not None
    assert not advice.is_better
    assert advice.reason.startswith("$")


def test_roles_generate_faster_and_start_later_than_a_replica_that_does_both():
    answer = planned(
        "gpt-oss-120b", rate=45, given=12_000, made=250, ttft_p95_ms=5000,
        accelerators=("nvidia-h200-141gb",), provisioning=("spot",),
    )  # fmt: skip
    advice = advise(answer)
    assert advice is not None
    alike = advice.roles.choice
    assert advice.roles.tpot_p95_ms.value < alike.tpot_p95_ms.value
    assert advice.roles.ttft_p95_ms.value > alike.ttft_p95_ms.value


def test_hardware_without_a_network_for_kv_cache_has_no_roles():
    assert advise(planned(accelerators=("nvidia-l4",))) is None


def test_batches_cost_less_than_traffic_with_targets():
    answer = planned()
    shown = answer.choices[:5]
    for one, batch in zip(shown, batch_costs(answer.question, shown), strict=True):
        assert one.usd_per_million is not None
        assert batch is not None
        assert batch.low < batch.value < batch.high
        assert batch.value < one.usd_per_million.value


def test_adapters_take_time_from_every_step():
    usual = planned(accelerators=("nvidia-l4",)).choices[0]
    many = planned(accelerators=("nvidia-l4",), adapters=8)
    alike = next(one for one in many.choices if one.candidate.form == usual.candidate.form)
    assert alike.tokens_per_second.value < usual.tokens_per_second.value


def test_a_quantized_kv_cache_serves_more_where_the_engine_supports_it():
    def most(bits: int) -> dict[str, float]:
        found = planned(given=6000, tpot_p95_ms=200, ttft_p95_ms=9000, kv_bits=bits, bits=(16,))
        return {
            one.candidate.form.label + one.candidate.form.parallelism: one.tokens_per_second.value
            for one in found.choices
        }

    usual, narrow = most(16), most(8)
    assert narrow["nvidia-l4 x1TP1"] > usual["nvidia-l4 x1TP1"]
    assert any("v5e" in label for label in usual)
    assert not any("v5e" in label for label in narrow)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"adapters": -1}, "adapters: must be 0 to 64, the most of one batch, got -1"),
        ({"kv_bits": 4}, "kv_bits: must be one of 8, 16, got 4"),
    ],
)
def test_settings_that_no_engine_has_are_refused(changes, message: str):
    with pytest.raises(ValueError, match=message):
        planned(**changes)


def kept(accelerator: str, conversations: int) -> KvAdvice:
    answer = planned(
        given=8000, ttft_p95_ms=4000, accelerators=(accelerator,), provisioning=("spot",)
    )
    return kv_advice(answer.question, answer.choices[0], conversations)


def test_conversations_that_the_accelerators_hold_need_no_tier():
    advice = kept("nvidia-h100-80gb", 10)
    assert advice.tiers == ()
    assert advice.reason == "the accelerators hold them"


def test_main_memory_is_of_use_where_a_disk_is_slower_than_computing():
    advice = kept("nvidia-h100-80gb", 400)
    memory, disk, filestore, lustre = advice.tiers
    assert advice.useful is memory
    assert memory.gib >= advice.replica_gib > advice.accelerator_gib
    assert disk.problem is not None
    assert disk.problem.startswith("reads 1.6 GB/s, computing makes ")
    assert filestore.gib == lustre.gib >= memory.gib


@pytest.mark.parametrize(
    ("accelerator", "conversations", "capacity_gib"),
    [("nvidia-h100-80gb", 400, 9000), ("nvidia-l4", 8600, 18_000)],
)
def test_all_replicas_together_read_the_smallest_lustre_instance_with_room(
    accelerator: str, conversations: int, capacity_gib: int
):
    """8,600 conversations are 8,399 GiB, and a tier may have 90 % of an instance."""
    answer = planned(
        given=8000, ttft_p95_ms=4000, accelerators=(accelerator,), provisioning=("spot",)
    )
    lustre = kept(accelerator, conversations).tiers[-1]
    assert lustre.name == "shared.place: lustre"
    assert lustre.bytes_per_second == capacity_gib / 1024 * 1e9 / answer.choices[0].replicas


def test_a_small_tier_on_filestore_is_on_the_smallest_instance():
    filestore = kept("nvidia-h100-80gb", 400).tiers[2]
    assert filestore.gib == 391
    assert filestore.bytes_per_second == 260 * 2**20 / 2  # 1 TiB, for two replicas


def test_a_tier_that_no_instance_holds_is_not_proposed():
    filestore = kept("nvidia-h100-80gb", 110_000).tiers[2]
    assert filestore.gib == 107_422
    assert filestore.problem == "no instance has 119358 GiB"


def test_a_replica_reads_a_share_no_faster_than_its_machine_receives():
    """The instance of 18,000 GiB has 8.8 GB/s for each of two replicas on a3-highgpu-2g."""
    assert kept("nvidia-h100-80gb", 8600).tiers[-1].bytes_per_second == 50e9 / 8


def test_more_than_the_machine_has_is_not_proposed():
    memory = kept("nvidia-h100-80gb", 4000).tiers[0]
    assert memory.problem is not None
    assert memory.problem.startswith("the machine has ")


def test_hardware_without_tiers_says_so():
    assert kept("tpu-v6e", 4000).reason == "vllm has no tiers on tpu-v6e"


def test_the_experts_of_a_mixture_can_be_spread_over_all_chips():
    forms = {
        one.candidate.form.parallelism: one.candidate
        for one in planned("deepseek-v3", accelerators=("nvidia-b200",), bits=(8,)).choices
    }
    spread, split = forms["EP8"], forms["TP8"]
    assert spread.room.weights > split.room.weights
    assert "EP16" in forms
    assert forms["EP16"].form.hosts == 2


def test_dense_models_have_no_experts_to_spread():
    found = planned("llama-3.3-70b", accelerators=("nvidia-b200",)).choices
    assert not any(one.candidate.form.experts for one in found)
