"""Names that serving stacks of one platform must not share."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from gke_inference.catalogue.engines import DEFAULT_ENGINE, engine
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join
from infra.stack import Platform


def collisions(
    name: str, platform: Platform, others: Mapping[str, Mapping[str, Any]]
) -> Iterator[InputError]:
    """Yield conflicts of a serving stack with others: the same team or model name.

    Teams that share a hostname need unique names, since the gateway routes by name.

    Args:
        name: Name of the stack.
        platform: The stack, with the settings of its platform.
        others: Raw serving stacks of the same platform, by name.
    """
    mine = _names(platform.models)
    for other, document in others.items():
        team = str(document.get("team"))
        if other == name:
            continue
        if team == platform.team:
            yield InputError(
                "team", "must be set in only one stack", team, f", the team of {other}, too"
            )
            continue
        if _host(platform, team) != _host(platform, str(platform.team)):
            continue
        models: Any = document.get("models")
        theirs = _raw_names(models if isinstance(models, dict) else {})
        host = platform.gateway.hostname or "the gateway's address"
        for served, where in mine.items():
            if served in theirs:
                message = f"must be a name that no other team uses on {host}"
                yield InputError(where, message, served, f", that of {theirs[served]} in {other}")


def _host(platform: Platform, team: str) -> str | None:
    return None if team not in platform.teams else platform.teams[team].hostname


def _names(models: Mapping[str, Any]) -> dict[str, str]:
    """Return the location of each name that clients may request."""
    names: dict[str, str] = {}
    for name, model in models.items():
        names[name] = join("models", name)
        for at, adapter in enumerate(model.adapter_names(name)):
            names.setdefault(adapter, join("models", name, "adapters", at))
        for other in model.further_models:
            names.setdefault(other, join("models", name, "images", "models", other))
    return names


def _raw_names(models: Mapping[str, Any]) -> dict[str, str]:
    names: dict[str, str] = {}
    for name, model in models.items():
        names[name] = join("models", name)
        written = cast("dict[str, Any]", model) if isinstance(model, dict) else {}
        form = _adapter_name(written.get("engine"))
        for at, adapter in enumerate(cast("list[Any]", written.get("adapters") or [])):
            asked = form.format(model=name, adapter=adapter)
            names.setdefault(asked, join("models", name, "adapters", at))
        images: Any = written.get("images")
        others: Any = images.get("models") if isinstance(images, dict) else None
        for other in cast("dict[str, Any]", others) if isinstance(others, dict) else {}:
            names.setdefault(other, join("models", name, "images", "models", other))
    return names


def _adapter_name(written: Any) -> str:
    """Return the pattern of adapter names for the engine of a file that is not yet checked."""
    try:
        return engine(str(written or DEFAULT_ENGINE)).adapter_name
    except ValueError:
        return "{adapter}"
