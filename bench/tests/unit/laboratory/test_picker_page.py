"""A replica's adapters in vLLM's metrics for a picker."""

from bench.laboratory.replicas import LabEngine, Replicas, picker_page
from simulator.engine.clock import StillClock
from simulator.replays.replica_spec import ReplicaSpec

FLAGS = ("--max-model-len=2048", "--enable-lora", "--max-loras=2")
MODULES = ("--lora-modules", "sql=gs://adapters/sql", "law=gs://adapters/law")


def spec(*flags):
    return ReplicaSpec("nvidia-l4", 1, "meta-llama/Llama-3.1-8B", (*FLAGS, *flags))


def adapters(page):
    return [line.rpartition(" ")[0] for line in page.splitlines() if "lora_requests_info{" in line]


def test_a_replica_that_never_computed_an_adapter_says_nothing_of_adapters():
    engine = LabEngine(spec().deployment("r", "127.0.0.1", "model"), StillClock())
    assert adapters(picker_page(engine)) == []


def test_a_replica_that_is_idle_again_lists_no_adapter_and_its_slots():
    engine = LabEngine(spec().deployment("r", "127.0.0.1", "model"), StillClock())
    engine.submit([1, 2, 3], [1, 1], 2, adapter="sql")
    waiting = adapters(picker_page(engine))
    assert 'waiting_lora_adapters="sql"' in waiting[0]
    engine.core.advance(100.0)
    (idle,) = adapters(picker_page(engine))
    assert 'max_lora="2",running_lora_adapters="",waiting_lora_adapters=""' in idle


def test_replicas_begin_as_the_platform_leaves_them_asked_once_for_their_first_adapter():
    replicas = Replicas([spec(*MODULES)], ["r"], ["127.0.0.1"], "model")
    (line,) = adapters(picker_page(replicas.engines[0]))
    assert 'max_lora="2",running_lora_adapters="",waiting_lora_adapters=""' in line
