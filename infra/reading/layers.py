"""Combines a serving stack with the settings of its platform.

A serving stack sets `platform`, `team`, `models`, `delivery`, `monitoring` and `allow_replace`, and
inherits everything else from the platform. Rules, plan, cost and quota therefore read it like any
other stack.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from pydantic import ValidationError

from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.problems import join
from infra.stack import Delivery, Layer, Monitoring, Platform, Serving
from infra.stack.problems import StackError, problems_of

SettingsOf = Callable[[str], str]
"""Returns the settings that a platform shares (see `shared_settings`), by its name."""

OWN: Final = frozenset(Serving.model_fields)
"""Fields that a serving stack sets."""
OF_THE_PLATFORM: Final = frozenset({"metrics_adapter", "traces"})
"""Fields of `monitoring` that concern clusters and therefore belong to the platform."""
_KEPT_BACK: Final = {"allow_replace", "budget", "layer", "models", "monitoring"}


def is_serving(document: Any) -> bool:
    """Return whether a raw stack document is a serving stack."""
    return isinstance(document, dict) and document.get("layer") == Layer.SERVING.value


def shared_settings(platform: Platform) -> str:
    """Return the settings of a platform that serving stacks read, as JSON."""
    settings = platform.model_dump(
        mode="json", by_alias=True, exclude_unset=True, exclude=_KEPT_BACK
    )
    monitoring = platform.monitoring.model_dump(
        mode="json", exclude_unset=True, include=set(OF_THE_PLATFORM)
    )
    return json.dumps(settings | {"monitoring": monitoring})


def combined(document: dict[str, Any], settings_of: SettingsOf) -> Platform:
    """Return a serving stack with the settings of its platform.

    Args:
        document: The raw serving stack.
        settings_of: Returns the platform's settings.

    Raises:
        StackError: The stack sets fields of the platform, or the platform's settings cannot be
            read.
    """
    problems = list(_out_of_place(document))
    if problems:
        raise StackError(problems)
    try:
        own = Serving.model_validate_json(json.dumps(document))
    except ValidationError as error:
        raise StackError(problems_of(error)) from None
    settings = cast("dict[str, Any]", json.loads(settings_of(own.platform)))
    team = cast("dict[str, Any]", settings.get("teams", {}).get(own.team, {}))
    if team.get("hostname"):
        settings["gateway"]["hostname"] = team["hostname"]
    watching = {**document.get("monitoring", {}), **settings.pop("monitoring", {})}
    shared = settings.pop("delivery", {})
    try:
        tool = Delivery.model_validate_json(json.dumps(shared)).applied_with
        delivery = {**document.get("delivery", {}), **({} if tool is None else {"with": tool})}
        whole = {**settings, **document, "delivery": delivery, "monitoring": watching}
        return Platform.model_validate_json(json.dumps(whole))
    except ValidationError as error:
        found = problems_of(error)[0]
        message = "must be a platform that this release of gke-inference reads"
        note = f": {found.sentence()}"
        raise StackError([InputError("platform", message, own.platform, note)]) from None


def of_its_layer(platform: Platform, problem: InputError) -> InputError:
    """Return a problem of a stack, with the platform in the path if the field is the platform's."""
    field = problem.path.partition(".")[0].partition("[")[0]
    if platform.layer is not Layer.SERVING or field in OWN:
        return problem
    return problem.at(f"platform {platform.platform}: {problem.path}")


def _out_of_place(document: dict[str, Any]) -> Iterator[InputError]:
    for field, value in document.items():
        if field in Platform.model_fields and field not in OWN:
            message = "must not be set when layer is serving: the platform's stack sets it"
            yield InputError(field, message, _brief(value))
    delivery: Any = document.get("delivery")
    if isinstance(delivery, dict) and "with" in delivery:
        message = "must not be set when layer is serving: the platform's stack sets it"
        yield InputError("delivery.with", message, _brief(cast("Any", delivery)["with"]))
    monitoring: Any = document.get("monitoring")
    for field, value in (
        cast("dict[str, Any]", monitoring).items() if isinstance(monitoring, dict) else ()
    ):
        if field in OF_THE_PLATFORM and field in Monitoring.model_fields:
            message = "must not be set when layer is serving: it applies to the platform's clusters"
            yield InputError(join("monitoring", str(field)), message, _brief(value))


def _brief(value: object) -> object:
    return Bare("a mapping") if isinstance(value, (dict, list)) else value
