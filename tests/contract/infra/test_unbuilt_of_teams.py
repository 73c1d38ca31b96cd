"""Images that only our builds create, in a platform stack and in the serving stacks on it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.plan import resolve
from infra.reading.built import OUTPUTS, UNBUILT, kept_outputs, unbuilt_problem
from infra.reading.load import platform_of, read
from infra.stack.problems import StackError
from scripts.delivery.writing import check_targets
from scripts.terminal.console import CheckFailedError
from tests.shipped_stacks import EXAMPLES

TEAMS = EXAMPLES / "teams"
PICTURES = platform_of(EXAMPLES / "images" / "Pulumi.images.yaml")

WITH_ROUTER = {"repository": "engines", "digests": {"body-router": "sha256:" + "1" * 64}}


def written(folder: Path, **of_platform: Any) -> Path:
    """Write the teams' stacks, with TPUs on the platform and image models for the team search."""
    shared = platform_of(TEAMS / "Pulumi.shared.yaml")
    shared["capacity"] |= PICTURES["capacity"]
    shared |= of_platform
    search = platform_of(TEAMS / "Pulumi.search.yaml")
    search["models"] = PICTURES["models"]
    for name, document in {"shared": shared, "search": search}.items():
        text = yaml.safe_dump({"config": {"gke-inference:platform": document}})
        (folder / f"Pulumi.{name}.yaml").write_text(text)
    return folder


def test_a_platform_with_tpus_needs_no_engine_that_no_serving_stack_may_run(tmp_path: Path) -> None:
    platform = read("shared", written(tmp_path, images=WITH_ROUTER))
    assert resolve(platform).images.unbuilt == []
    assert unbuilt_problem(resolve(platform).images, "shared") is None


def test_a_platform_with_tpus_and_no_reason_for_tags_needs_no_engine(tmp_path: Path) -> None:
    platform = read("shared", written(tmp_path, images=WITH_ROUTER, unpinned_images=None))
    assert platform.unpinned_images is None


def test_a_platform_still_needs_the_programs_that_it_runs_itself(tmp_path: Path) -> None:
    clients = {"teams": {"app": {}}}
    platform = read("shared", written(tmp_path, clients=clients))
    assert resolve(platform).images.unbuilt == ["body_router", "callout"]


def test_a_serving_stack_names_the_stack_of_its_platform(tmp_path: Path) -> None:
    problem = unbuilt_problem(resolve(read("search", written(tmp_path))).images, "search")
    assert problem is not None
    assert problem.sentence() == (
        "images.digests must have diffusion-tpu, as only this repository's builds create these"
        " images, got none: `gke-inference images prepare --stack shared --on cloud` is the first"
        " step (docs/images.md)"
    )


@pytest.mark.parametrize("option", ["git", "oci"])
def test_no_image_that_exists_nowhere_is_delivered(tmp_path: Path, option: str) -> None:
    plan = resolve(read("search", written(tmp_path)))
    git = tmp_path if option == "git" else None
    oci = "./layout:prod" if option == "oci" else None
    with pytest.raises(CheckFailedError, match=r"^search: images\.digests must have diffusion-tpu"):
        check_targets(plan, "search", git, oci)
    check_targets(plan, "search", None, None)  # what a person looks at is rendered


def test_a_serving_stack_has_no_first_step(tmp_path: Path) -> None:
    file = tmp_path / "outputs.json"
    file.write_text("{}")
    given = {UNBUILT: "first:search", OUTPUTS: str(file)}
    with pytest.raises(StackError, match="must not be first:STACK for a serving stack"):
        kept_outputs(read("search", written(tmp_path)), given)
