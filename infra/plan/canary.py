"""The second version of a model."""

from dataclasses import dataclass

from infra.stack import Canary, EngineSettings, Model


@dataclass(frozen=True)
class CanaryVersion:
    """Marks a served model as the second version of another model."""

    of: str
    """Name of the model, which clients request."""
    name: str
    """Name of the version."""
    percent: int
    """Share of the model's requests."""


def canary_model(model: Model, canary: Canary) -> Model:
    """Return the second version of a model as a separate model."""
    engine = canary.engine or model.engine
    settings = canary.settings
    if settings is None:
        settings = model.settings if engine == model.engine else EngineSettings()
    return model.model_copy(
        update={
            "canary": None,
            "disk": None,  # a disk holds one version
            "engine": engine,
            # by default, nodes are kept for the model only: the canary can use them as well
            "replicas": canary.replicas or model.replicas.model_copy(update={"buffer": 0}),
            "settings": settings,
            "weights": canary.weights,
        }
    )
