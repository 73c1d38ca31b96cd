"""Validation of plain component inputs, with field names as the user's language spells them."""

from collections.abc import Mapping
from typing import Any, cast

import pulumi

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.labels import labels_of
from gke_inference.catalogue.names import check_name
from gke_inference.catalogue.rung_settings import RungArgs
from gke_inference.catalogue.rungs import Rung, check_rung


def camel(name: str) -> str:
    """Return `max_run_hours` as `maxRunHours`."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def rung_of(rung: RungArgs, where: str, *, region: str | None = None) -> Rung:
    """Return `check_rung` for a component.

    Raises:
        pulumi.InputPropertyError: A rule is broken.
    """
    try:
        return check_rung(rung, region=region)
    except InputError as error:
        raise pulumi.InputPropertyError(f"{where}.{camel(error.path)}", error.message) from error


def name_of(args: object, field: str, kind: str) -> str:
    """Return a valid physical name of a kind (`cluster`, `bucket`, ...; see `names.KINDS`).

    Raises:
        pulumi.InputPropertyError: It is missing or not such a name.
    """
    given = _values(args).get(field)
    try:
        return check_name(kind, str(given) if given is not None else "")
    except ValueError as error:
        raise pulumi.InputPropertyError(camel(field), str(error)) from error


def user_labels(args: object, component: str) -> dict[str, str]:
    """Return the labels of a component's resources. Ours override the user's `labels`.

    Raises:
        pulumi.InputPropertyError: One of them is not a label.
    """
    try:
        return labels_of(component, extra=_values(args).get("labels"))
    except ValueError as error:
        raise pulumi.InputPropertyError("labels", str(error)) from error


def under(
    parent: pulumi.Resource,
    *,
    depends_on: list[pulumi.Resource] | None = None,
    ignore_changes: list[str] | None = None,
    hooks: pulumi.ResourceHookBinding | None = None,
    was: str | None = None,
) -> pulumi.ResourceOptions:
    """Return the options of a component's child, which an older release named `was`."""
    return pulumi.ResourceOptions(
        parent=parent,
        aliases=None if was is None else [pulumi.Alias(name=was)],
        depends_on=depends_on,
        hooks=hooks,
        ignore_changes=ignore_changes,
    )


def _values(args: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", args)
