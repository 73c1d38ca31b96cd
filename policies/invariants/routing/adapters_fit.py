"""The engine has LoRA enabled and enough slots for its adapters."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, unknown
from policies.framework.rule import Invariant
from policies.objects.engines import Engine, engines
from policies.objects.world import World


def _check(world: World) -> Iterator[Finding]:
    for server in engines(world):
        if server.has_adapter_slots:
            yield from _findings(server)


def _findings(server: Engine) -> Iterator[Finding]:
    line, obj = server.container.line, server.container.pod.obj
    field = f"{server.container.path}.args"
    has_lora = line.has("--enable-lora") or (
        server.container.environment.get("VLLM_ALLOW_RUNTIME_LORA_UPDATING") in ("1", "True")
        and line.has("--max-loras")
    )
    count = len(server.adapters)
    if not has_lora:
        if count or line.has("--max-loras", "--max-cpu-loras", "--max-lora-rank"):
            yield broken(
                obj,
                f"{field}[--enable-lora]",
                None,
                "adapters or slots are configured, but LoRA is not enabled",
                "add --enable-lora",
            )
        return
    slots, held = line.flag("--max-loras") or "1", line.flag("--max-cpu-loras")
    if not slots.isdigit() or not (held or "0").isdigit():
        yield unknown(
            obj,
            field,
            slots,
            "the objects that were read do not set the variable",
            "also check the ConfigMap that defines it",
        )
        return
    kept = int(held) if held else int(slots)
    if kept < int(slots):
        yield broken(
            obj,
            f"{field}[--max-cpu-loras]",
            held,
            f"is below --max-loras {slots}: the engine does not start",
            f"write {slots} or more",
        )
    elif count > kept:
        yield broken(
            obj,
            f"{field}[--max-cpu-loras]",
            held or slots,
            f"{count} adapters are configured and {kept} are kept: requests repeatedly load the "
            "others from storage",
            f"write --max-cpu-loras={count}",
        )


RULE = Invariant(
    name="adapters-fit",
    description="LoRA is enabled, with enough memory slots for all adapters.",
    reference="vLLM: LoRA adapters; AIBrix #801, production-stack #331",
    check=_check,
)
