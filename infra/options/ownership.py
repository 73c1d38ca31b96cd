"""Ownership of a cluster's objects: one field manager per stack, and labels per team."""

from typing import Any, Final, cast

import pulumi

from gke_inference.catalogue.labels import TEAM_LABEL
from infra.plan.names import Names
from infra.stack import Platform

FIELD_MANAGER: Final = "pulumi.com/patchFieldManager"
"""Annotation that names the field manager of an object."""
_TEMPLATES: Final = ("template", "leaderTemplate", "workerTemplate")


def owned(platform: Platform) -> pulumi.ResourceTransformation:
    """Return the transform that gives all objects of a cluster the same field manager in every run.

    By default, each object has a random field manager that only the state records. Objects left by
    an interrupted run would then have two managers, and the first change of a shared field would
    fail with a conflict. Objects of a team, and their pods, are also labeled with the team.
    """
    manager, team = Names(platform).field_manager(), platform.team

    def own(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult:
        metadata: Any = args.props.get("metadata")
        if not args.type_.startswith("kubernetes:") or not isinstance(metadata, dict):
            return pulumi.ResourceTransformationResult(args.props, args.opts)
        known = cast("dict[str, Any]", metadata)
        given = cast("dict[str, Any]", known.get("annotations") or {})
        annotations: dict[str, Any] = {**given, FIELD_MANAGER: manager}
        props: dict[str, Any] = {**args.props, "metadata": {**known, "annotations": annotations}}
        return pulumi.ResourceTransformationResult(
            props if team is None else labeled(props, team), args.opts
        )

    return own


def labeled(props: dict[str, Any], team: str) -> dict[str, Any]:
    """Return an object with the label of a team, including its pod templates."""
    spec: Any = props.get("spec")
    made = _with_label(props, team)
    if not isinstance(spec, dict):
        return made
    return {**made, "spec": _templates(cast("dict[str, Any]", spec), team)}


def _with_label(value: dict[str, Any], team: str) -> dict[str, Any]:
    metadata = cast("dict[str, Any]", value.get("metadata") or {})
    labels = {**cast("dict[str, Any]", metadata.get("labels") or {}), TEAM_LABEL: team}
    return {**value, "metadata": {**metadata, "labels": labels}}


def _templates(spec: dict[str, Any], team: str) -> dict[str, Any]:
    """Return a spec whose pod templates have the label: of a Deployment or of a group."""
    made: dict[str, Any] = {}
    for key, value in spec.items():
        if not isinstance(value, dict):
            made[key] = value
        elif key in _TEMPLATES:
            made[key] = _with_label(cast("dict[str, Any]", value), team)
        elif key == "leaderWorkerTemplate":
            made[key] = _templates(cast("dict[str, Any]", value), team)
        else:
            made[key] = value
    return made
