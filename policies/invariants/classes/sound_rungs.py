"""Compute classes are accepted by the cluster: valid combinations, within limits."""

from collections import Counter
from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import at
from policies.framework.rule import Invariant
from policies.objects.compute_classes import ClassRung, rungs
from policies.objects.index import Obj
from policies.objects.world import World

_PRACTICAL = 10
_SAME_SCORE = 3
_WEEK_SECONDS = 604_800


def _check(world: World) -> Iterator[Finding]:
    for each in world.of("ComputeClass"):
        listed = rungs(each)
        yield from _check_class(each, listed)
        for rung in listed:
            yield from _check_rung(each, rung)


def _check_class(each: Obj, listed: list[ClassRung]) -> Iterator[Finding]:
    if each.name.startswith(("gke", "autopilot")):
        yield broken(
            each,
            "metadata.name",
            each.name,
            "starts with gke or autopilot, which GKE rejects",
            "choose another name",
        )
    if len(listed) > _PRACTICAL:
        yield broken(
            each,
            "spec.priorities",
            len(listed),
            f"more than {_PRACTICAL} rungs are not tried",
            "keep the rungs that differ in availability",
        )
    scores = Counter(rung.body["priorityScore"] for rung in listed if "priorityScore" in rung.body)
    if scores and sum(scores.values()) != len(listed):
        yield broken(
            each,
            "spec.priorities[].priorityScore",
            sum(scores.values()),
            f"given for some of {len(listed)} rungs; set it for all or none",
            "set a score for every rung or none",
        )
    for score, count in scores.items():
        if count > _SAME_SCORE:
            yield broken(
                each,
                "spec.priorities[].priorityScore",
                score,
                f"{count} rungs share it, at most {_SAME_SCORE} may",
                "use another score",
            )


def _check_rung(each: Obj, rung: ClassRung) -> Iterator[Finding]:
    affinity = at(rung.body, "reservations", "affinity")
    zones = at(rung.body, "location", "zones") or each.at(
        "spec", "priorityDefaults", "location", "zones"
    )
    if affinity == "Specific" and zones:
        yield broken(
            each,
            f"{rung.path}.location.zones",
            zones,
            "cannot be combined with a Specific reservation",
            "set them in reservations.specific[]",
        )
    if rung.is_flex and (rung.is_spot or affinity not in (None, "None")):
        beside = "spot" if rung.is_spot else "a reservation"
        yield broken(
            each,
            f"{rung.path}.flexStart",
            True,
            f"flex-start cannot be combined with {beside}",
            "split it into two rungs",
        )
    longest = rung.body.get("maxRunDurationSeconds")
    if rung.is_flex and isinstance(longest, int) and longest > _WEEK_SECONDS:
        yield broken(
            each,
            f"{rung.path}.maxRunDurationSeconds",
            longest,
            f"flex-start nodes live {_WEEK_SECONDS} s at most",
            f"write {_WEEK_SECONDS} or less",
        )


RULE = Invariant(
    name="class-sound-rungs",
    description="Rungs use valid combinations, within the limits of a compute class.",
    reference="google/skills gke-compute-classes; ComputeClass reference",
    check=_check,
)
