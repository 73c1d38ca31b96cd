"""Public names: what the code has is recorded, and no stable one is lost without a warning."""

import pytest

from infra.stack import renames
from infra.stack.renames import Kind, Rename
from scripts.release.surface.classes import Stability, classes, classes_of
from scripts.release.surface.names import Kind as NameKind
from scripts.release.surface.names import accepted_names, output_names, public_names
from scripts.release.surface.page import page_of
from scripts.release.surface.record import breaks, named, read_record, recorded, text_of

BEFORE = "stable stack models.*.images\nbeta stack pipelines\nstable command up\n"
NAMES = ["stack models.*.images", "stack pipelines", "command up"]


def known(
    released: str | None = "0.1.0", *deprecated: dict[str, str], beta: str = "stack pipelines"
):
    entry = {"class": "beta", "reason": "because", "names": [beta]}
    return classes_of({"released": released, "classes": [entry], "deprecated": [*deprecated]})


def deprecated(name: str, since: str) -> dict[str, str]:
    return {"name": name, "new": "other", "since": since}


def without(name: str) -> list[str]:
    return [each for each in NAMES if each != name]


def test_the_code_has_every_name_of_the_record():
    assert breaks(named(), read_record(), classes()) == []


def test_every_name_of_the_code_is_recorded():
    assert sorted(set(named()) - set(read_record())) == [], "run `make docs`"


@pytest.mark.parametrize(
    "name",
    [
        "stack capacity.*.rungs.*.provisioning",
        "stack capacity.*.rungs.*.provisioning=flex-start",
        "stack models.*.canary.settings.max_batch",
        "stack team",
        "component gke-inference:index:ComputeClass",
        "component gke-inference:index:ComputeClass.inputs.rungs",
        "component gke-inference:index:InferenceCluster.outputs.endpoint",
        "command models push --from-hub",
        "command ask <prompt>",
        "output clusters.*.name",
        "output platform",
        "exit-code 2 ERROR",
        "variable GKE_INFERENCE_ON",
        "alert NoReadyReplica",
        "metric callout_guard_seconds",
        "metric diffusion_images_waiting",
        "metric gke_inference_stream_messages_total",
        "metric relay_fallback_open",
        "label managed-by",
    ],
)
def test_a_name_that_users_write_or_query_is_public(name):
    assert name in named()


def test_what_the_user_cannot_set_is_no_name():
    names = public_names()[NameKind.STACK]
    assert not [each for each in names if "$" in each or each.startswith(".") or not each]


def test_outputs_are_those_of_the_functions_that_make_them():
    assert set(output_names()) == {
        "addresses", "apigee_keys", "attachments", "catalogue", "clusters", "clusters.*.endpoint",
        "clusters.*.location", "clusters.*.name", "endpoint", "endpoints", "front",
        "model_endpoints", "models", "placements", "platform",
    }  # fmt: skip


def test_each_entry_of_a_class_covers_a_name_of_the_code():
    idle = [
        beginning
        for each in classes().classes
        for beginning in each.names
        if not any(_covers(beginning, name) for name in named())
    ]
    assert idle == []


def _covers(beginning: str, name: str) -> bool:
    return name == beginning or name.startswith(tuple(f"{beginning}{sign}" for sign in ".= "))


def test_a_class_covers_what_is_below_its_names_and_nothing_beside_them():
    found = known(beta="stack models.*.videos")
    for name in ("", ".frames", "=x"):
        assert found.stability_of(f"stack models.*.videos{name}") is Stability.BETA
    assert found.stability_of("stack models.*.videos_more") is Stability.STABLE


def test_a_stable_name_that_is_gone_breaks_the_record_and_stays_in_it():
    names = without("command up")
    assert breaks(names, recorded(BEFORE), known()) == [
        "command up: is gone without a release that warned of it; keep it, and deprecate it with "
        "its replacement"
    ]
    assert text_of(names, recorded(BEFORE), known()) == BEFORE


def test_a_beta_name_may_go():
    names = without("stack pipelines")
    assert breaks(names, recorded(BEFORE), known()) == []
    assert "pipelines" not in text_of(names, recorded(BEFORE), known())


def test_a_stable_name_does_not_become_beta():
    found = known(beta="command up")
    assert breaks(NAMES, recorded(BEFORE), found) == [
        "command up: was stable, and must be so or be deprecated first"
    ]
    assert "stable command up\n" in text_of(NAMES, recorded(BEFORE), found)


def test_a_name_is_deprecated_in_one_minor_version_and_may_be_gone_in_the_next():
    before = recorded(BEFORE)
    next_one = deprecated("command up", "0.2")
    assert breaks(NAMES, before, known("0.1.0", next_one)) == []
    text = text_of(NAMES, before, known("0.1.0", next_one))
    assert "deprecated command up\n" in text
    gone = without("command up")
    assert len(breaks(gone, recorded(text), known("0.1.3", next_one))) == 1
    assert breaks(gone, recorded(text), known("0.2.0", next_one)) == []
    assert "command up" not in text_of(gone, recorded(text), known("0.2.0", next_one))


def test_a_deprecation_that_claims_an_older_version_is_refused():
    found = known("0.1.0", deprecated("command up", "0.1"))
    assert len(breaks(NAMES, recorded(BEFORE), found)) == 1
    assert len(breaks(without("command up"), recorded(BEFORE), found)) == 1


def test_before_the_first_release_a_new_record_removes_a_name():
    names = without("command up")
    assert breaks(names, recorded(BEFORE), known(None)) == [
        "command up: is in the record and not in the code; run `make docs` if that is meant"
    ]
    text = text_of(names, recorded(BEFORE), known(None))
    assert breaks(names, recorded(text), known(None)) == []


def test_an_accepted_word_of_a_stack_is_a_name_with_everything_below_it(monkeypatch):
    rename = Rename(Kind.KEY, "models.*.pictures", "images", "0.2")
    current = ["models.*.images", "models.*.images.sizes", "models.*.images_more"]
    monkeypatch.setattr(renames, "version", lambda: "0.2.0")
    assert [*accepted_names(current, [rename])] == [
        "models.*.pictures",
        "models.*.pictures.sizes",
    ]
    monkeypatch.setattr(renames, "version", lambda: "0.3.0")
    assert [*accepted_names(current, [rename])] == []


def test_the_page_has_the_classes_and_the_deprecations():
    page = page_of(NAMES, known("0.1.0", deprecated("command up", "0.2")))
    assert "| beta | `stack pipelines` | because |" in page
    assert "| `command up` | `other` | 0.2 | 0.3 |" in page
    assert "No version is released" not in page
    assert "No version is released" in page_of(NAMES, known(None))
