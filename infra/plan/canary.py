"""Canaries as models: what a stack says under `canary` becomes a model of its own to be served.

Everything a replica needs (identity, servers, autoscalers, scraping, alerts) is the same for both
versions, so the program serves the second one like any model; only the gateway knows that the two
answer to one name.
"""

from infra.stack import Model, Platform


class VersionedModel(Model):
    """The second version of a model. No stack has one: it is made of a model and its canary."""

    of: str
    """Name of the model, which clients ask for."""
    version: str
    """Name of the version."""
    percent: int
    """Share of the model's requests."""


def version_name(name: str, version: str) -> str:
    """Return what the second version of a model is called: `NAME-VERSION`."""
    return f"{name}-{version}"


def with_canaries(platform: Platform) -> Platform:
    """Return a platform whose canaries stand beside the models, each under its own name."""
    models: dict[str, Model] = {}
    for name, model in platform.models.items():
        models[name] = model
        canary = model.canary
        if canary is not None:
            models[version_name(name, canary.version)] = VersionedModel.model_construct(
                None,
                **{
                    **dict(model),
                    "canary": None,
                    "disk": None,  # a disk holds one version
                    "of": name,
                    "percent": canary.percent,
                    "replicas": canary.replicas or model.replicas,
                    "version": canary.version,
                    "weights": canary.weights,
                },
            )
    return platform.model_copy(update={"models": models})


def served_name(name: str, model: Model) -> str:
    """Return the name clients ask for: a version answers to its model's."""
    return model.of if isinstance(model, VersionedModel) else name
