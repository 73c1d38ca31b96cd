"""Words of a served model: its form, task and role, and how a replica spans hosts."""

from gke_inference.settings import Word


class Form(Word):
    """Form of a model's pods on TPU and GPU."""

    SINGLE = "single"
    PAIRED = "paired"
    DUAL_CONTAINER = "dual-container"
    DRA = "dra"


class Role(Word):
    """Role of a replica in disaggregated serving."""

    DECODE = "decode"
    PREFILL = "prefill"


class Spanning(Word):
    """Way in which a replica spans several hosts."""

    ENGINE = "engine"
    RAY = "ray"
    KUBERAY = "kuberay"


class Task(Word):
    """Kind of output that a model returns."""

    GENERATE = "generate"
    EMBED = "embed"
    IMAGE = "image"
    VIDEO = "video"
    PREDICT = "predict"

    @property
    def is_diffusion(self) -> bool:
        """Whether the image server of this project answers, of which every chip holds a model."""
        return self in (Task.IMAGE, Task.VIDEO)

    @property
    def is_text(self) -> bool:
        """Whether it reads tokens and answers with text or vectors, as OpenAI's API has them."""
        return self in (Task.GENERATE, Task.EMBED)
