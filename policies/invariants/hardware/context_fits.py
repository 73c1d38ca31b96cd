"""Engine context lengths do not exceed those of the model."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, unknown
from policies.framework.rule import Invariant
from policies.objects.engines import engines
from policies.objects.models import longest_context
from policies.objects.world import World


def _check(world: World) -> Iterator[Finding]:
    for server in engines(world):
        written = server.context
        field = f"{server.container.path}.args[--max-model-len]"
        if written is None:
            continue  # the engine reads it from the model's own configuration
        obj = server.container.pod.obj
        most = longest_context(server)
        if not written.isdigit():
            yield unknown(
                obj,
                field,
                written,
                "the value is not a number in the objects that were read",
                "also check the ConfigMap that defines it",
            )
        elif most is None:
            yield unknown(
                obj,
                field,
                written,
                f"the maximum context of {server.model} is not known",
                "compare with max_position_embeddings in its config.json",
            )
        elif int(written) > most and not server.container.line.has(
            "--hf-overrides", "--rope-scaling"
        ):
            yield broken(
                obj,
                field,
                written,
                f"{server.model} supports at most {most} tokens: the engine does not start",
                f"write {most} or less, or scale its positions",
            )


RULE = Invariant(
    name="context-fits-model",
    description="An engine's maximum context length is within that of its model.",
    reference="vLLM refuses --max-model-len above max_position_embeddings",
    check=_check,
)
