"""Triton Inference Server behind the Open Inference Protocol, for predictive models.

The weights contain a model repository, which has a folder with the served name, its versions and,
where Triton cannot derive it from the model, `config.pbtxt` (triton-inference-server/server
docs/user_guide/model_repository.md and model_configuration.md). The repository is read through the
mount of the bucket, not with Triton's own `gs://` support, which copies every model to a temporary
folder at the start and knows neither versions of weights nor their manifest.
Flags: triton-inference-server/server src/command_line_parser.cc at v2.70.0.
"""

from .spec import METRICS_PORT, Serving

COMMAND = ("tritonserver",)

MODELS = "models"
"""Folder of the model repository."""
_EXIT_SECONDS = 25
"""Time for requests that run when the server ends, less than the launcher leaves it."""


def arguments(serving: Serving) -> list[str]:
    """Return the arguments after `COMMAND`.

    The default of the largest batch applies to models without `config.pbtxt`, for which the ONNX
    Runtime backend also turns on the dynamic batcher.
    """
    args = [
        f"--model-repository={serving.source.rstrip('/')}/{MODELS}",
        "--model-control-mode=none",  # no client loads or removes a model
        f"--http-port={serving.port}",
        "--allow-grpc=false" if serving.grpc_port is None else f"--grpc-port={serving.grpc_port}",
        f"--metrics-port={METRICS_PORT}",
        f"--exit-timeout-secs={_EXIT_SECONDS}",
    ]
    if serving.max_batch is not None:
        args.append(f"--backend-config=default-max-batch-size={serving.max_batch}")
    return args
