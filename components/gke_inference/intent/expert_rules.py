"""Rules about expert parallelism: models, hardware and settings that support it."""

from collections.abc import Iterator

from gke_inference.catalogue.engines import engines_where
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.rungs import Rung
from gke_inference.intent.expert_settings import Experts
from gke_inference.intent.intent import ServingIntent
from gke_inference.sizing.architectures import find_model

OWNED_FLAGS = ("all2all-backend", "enable-eplb", "enable-expert-parallel", "eplb-config")
"""Engine flags that `experts` sets."""
_DEEP_EP = "deepep_"


def expert_problems(intent: ServingIntent) -> Iterator[InputError]:
    """Yield every rule that a model with `experts` violates."""
    parallel = intent.experts
    if parallel is None:
        return
    found = next(_unsupported(intent), None)
    if found is not None:
        yield found
        return
    yield from _settings(intent, parallel)
    known = find_model(intent.weights, intent.served_name)
    experts = 0 if known is None else known.experts
    if not experts:
        rule = "needs a mixture of experts that the catalog knows"
        yield InputError("experts", rule, intent.served_name)
        return
    for place, rung in intent.rungs.items():
        problem = _on_rung(intent, parallel, experts, place, rung)
        if problem is not None:
            yield problem
            return


def needs_gpu_initiated_rdma(intent: ServingIntent, hosts: int) -> bool:
    """Return whether GPUs send to those of other hosts themselves, as DeepEP does."""
    parallel = intent.experts
    return parallel is not None and hosts > 1 and parallel.backend(intent.role).startswith(_DEEP_EP)


def _unsupported(intent: ServingIntent) -> Iterator[InputError]:
    able = [facts.name for facts in engines_where(lambda facts: facts.any_has("experts"))]
    if intent.engine not in able:
        names = " or ".join(able)
        yield InputError("experts", f"must not be set unless engine is {names}", intent.engine)
    if "tpu" in intent.kinds:
        # tpu-inference shards experts by --additional-config; its releases reject DeepEP and EPLB
        rule = "is not supported on TPU: vLLM's all-to-all backends and redundant experts are for"
        yield InputError("experts", f"{rule} GPUs")
    if intent.task != "generate":
        yield InputError("experts", f"must not be set when task is {intent.task}")
    if intent.spanning in ("ray", "kuberay"):
        yield InputError("spanning", "must be engine, or left out, with experts", intent.spanning)
    if intent.adapters:
        yield InputError("adapters", "must not be set with experts", len(intent.adapters))
    if intent.live_adapters is not None:
        yield InputError("live_adapters", "must not be set with experts")


def _settings(intent: ServingIntent, parallel: Experts) -> Iterator[InputError]:
    roles = ("serve",) if intent.role is None else ("prefill", "decode")
    for role, backend in parallel.all2all:
        if backend is not None and role not in roles:
            rule = f"must be one of {', '.join(roles)} here"
            yield InputError("experts.all2all", rule, role)
    for flag in OWNED_FLAGS:
        if flag in intent.settings.flags:
            rule = "must not be set with experts, which sets it"
            yield InputError(f"settings.engine_args.{flag}", rule, intent.settings.flags[flag])
    if intent.role is not None and intent.groups and not parallel.hybrid_load_balancing:
        rule = "must be true where a role has several hosts: each reads KV cache for its own ranks"
        yield InputError("experts.hybrid_load_balancing", rule, False)


def _on_rung(
    intent: ServingIntent, parallel: Experts, experts: int, place: str, rung: Rung
) -> InputError | None:
    if rung.devices == 1:
        return InputError("experts", f"must not be set: {place} has one device")
    if rung.is_multi_host and rung.network != "rdma":
        rule = f"needs network rdma between the hosts of {place}"
        return InputError("experts", rule, Bare(str(rung.network)))
    split, per_host = intent.split or 1, rung.devices // rung.hosts
    if per_host % split:
        rule = f"must divide the {per_host} devices of a host of {place}"
        return InputError("settings.tensor_parallel", rule, split)
    if (experts + parallel.redundant) % rung.devices:
        missing = -experts % rung.devices
        rule = (
            f"must make {experts} experts a multiple of the {rung.devices} devices of {place},"
            f" such as {missing or rung.devices}"
        )
        return InputError("experts.redundant", rule, parallel.redundant)
    return None
