"""The container of a model on Cloud Run: the engine's command line, its size and its probe."""

from typing import Any, Final

from gke_inference.catalogue.cloud_run import run_limits
from gke_inference.catalogue.engines import engine
from gke_inference.intent.cloud_run import CloudRunSettings, run_intent
from gke_inference.serving.hardware import hardware
from gke_inference.serving.launcher.commands import arguments, environment, program
from gke_inference.serving.launcher.spec import PORT, Serving
from gke_inference.serving.serving import serving_of
from gke_inference.serving.weights import bucket_path, storage

_PERIOD_SECONDS: Final = 5


def run_serving(
    name: str, model: CloudRunSettings, timeout_seconds: int, weights: str, where: str = "weights"
) -> Serving:
    """Return the served configuration of a model on Cloud Run.

    Args:
        name: Name that clients use.
        model: Its settings, which `run_problems` has checked.
        timeout_seconds: Maximum time of a request.
        weights: `gs://BUCKET/PATH@VERSION`.
        where: Field of the weights, for errors.

    Raises:
        InputError: The weights are not such a path.
    """
    intent = run_intent(name, model, timeout_seconds, weights)
    files = storage(
        "gpu",
        name,
        bucket_path(weights, where),
        {},
        cache_bucket=None,
        claim=None,
        is_streamed=True,
        weights_gib=intent.gib,
    )
    return serving_of(intent, hardware("gpu", "", [*intent.rungs.values()]), files, None, None)


def container(serving: Serving, model: CloudRunSettings, image: str) -> dict[str, Any]:
    """Return the container of an instance.

    Args:
        serving: Served configuration.
        model: Settings of the model.
        image: Image of the engine.
    """
    variables = {**environment(serving), **model.settings.variables}
    return {
        "args": arguments(serving),
        "commands": list(program(serving.engine)),
        "envs": [{"name": name, "value": variables[name]} for name in sorted(variables)],
        "image": image,
        "ports": {"container_port": PORT},
        "resources": {
            "cpu_idle": False,  # a GPU requires instance-based billing
            "limits": {
                "cpu": str(model.instance_vcpus),
                "memory": f"{model.instance_gib}Gi",
                "nvidia.com/gpu": "1",
            },
            "startup_cpu_boost": True,
        },
        "startup_probe": _probe(serving.engine, model.startup_seconds),
    }


def _probe(engine_name: str, seconds: int) -> dict[str, Any]:
    """Return a probe that waits so long; the part beyond the longest wait is a delay before it."""
    most = run_limits().probe_seconds
    probed = min(seconds, most)
    return {
        "failure_threshold": -(-probed // _PERIOD_SECONDS),
        "http_get": {"path": engine(engine_name).health_path, "port": PORT},
        "initial_delay_seconds": seconds - probed,
        "period_seconds": _PERIOD_SECONDS,
        "timeout_seconds": _PERIOD_SECONDS,
    }
