"""Triton's OpenAI front end over TensorRT-LLM.

The weights are a Triton model repository: an engine that was built for one accelerator, or the
PyTorch backend's `model.yaml`. Settings that it fixes (parallelism, formats, batch) have no flag.
Flags: triton-inference-server/server `python/openai/openai_frontend/main.py` at e1db8a6.
"""

from .spec import Serving

COMMAND = ("python3", "/opt/tritonserver/python/openai/openai_frontend/main.py")

MODELS = "models"
"""Folder of the model repository."""
TOKENIZER = "tokenizer"
"""Folder beside it."""


def arguments(serving: Serving) -> list[str]:
    """Return the arguments after `COMMAND`."""
    folder = serving.source.rstrip("/")
    return [
        f"--model-repository={folder}/{MODELS}",
        f"--tokenizer={folder}/{TOKENIZER}",
        "--backend=tensorrtllm",
        "--host=0.0.0.0",
        f"--openai-port={serving.port}",
    ]
