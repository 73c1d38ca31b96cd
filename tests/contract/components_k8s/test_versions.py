import re
from pathlib import Path

import pytest

from gke_inference.catalogue import versions

ROOT = Path(__file__).parents[3]
# A built-in kind of the core group is `v1`, too short to look for.
LOCKED = sorted(
    {api["api_version"] for api in versions.lock()["apis"].values() if "/" in api["api_version"]}
    | {image["repository"] for image in versions.lock()["images"].values()}
    | {
        f"{image['repository'].rpartition('/')[2]}:{image['tag']}"
        for image in versions.lock()["images"].values()
    }
)

ON_BOOT_DISKS = {"nvidia_installer"}
"""Images of no registry, which GKE puts on the disks of nodes: nobody pulls them."""


def sources() -> list[Path]:
    found = [*(ROOT / "components").rglob("*"), *(ROOT / "workloads").rglob("*")]
    return [
        path
        for path in found
        if path.suffix in {".py", ".yaml", ".yml", ".json"} and path.name != "versions.yaml"
    ]


def code(path: Path) -> str:
    """Returns what a file does: docstrings may cite a version, statements may not."""
    text = path.read_text(encoding="utf-8")
    return re.sub(r'""".*?"""', "", text, flags=re.DOTALL) if path.suffix == ".py" else text


def test_no_version_of_the_lock_is_repeated():
    pattern = re.compile(rf"(?<![\w./-])({'|'.join(map(re.escape, LOCKED))})(?![\w.-])")
    repeats = {str(path): set(pattern.findall(code(path))) for path in sources()}
    assert len(repeats) > 100
    assert {path: found for path, found in repeats.items() if found} == {}


@pytest.mark.parametrize("name", sorted(versions.lock()["images"]))
def test_an_image_has_an_exact_tag_and_no_invented_digest(name):
    entry = versions.lock()["images"][name]
    is_release = re.fullmatch(r"v?\d+\.\d+(\.\d+)?(-[a-z0-9.-]+)?", entry["tag"])
    assert is_release or entry["digest"] or name in ON_BOOT_DISKS
    assert entry["digest"] == "" or re.fullmatch(r"sha256:[0-9a-f]{64}", entry["digest"])
    assert bool(entry["digest"]) == bool(entry.get("digest_source"))
    assert entry["source"]
    assert entry["confidence"] in {"documented", "known"}


def test_a_known_digest_pins_the_image():
    image = versions.Image("registry.example/epp", "v1.2.0", "sha256:" + "0" * 64)
    assert image.reference == f"registry.example/epp:v1.2.0@sha256:{'0' * 64}"
    assert versions.Image("registry.example/epp", "v1.2.0").reference.endswith("/epp:v1.2.0")


def test_an_engine_release_is_the_one_in_its_image():
    for name, engine in versions.lock()["engines"].items():
        tag = versions.image(engine["image"]).tag.removeprefix("v")
        assert re.fullmatch(rf"{re.escape(versions.engine_version(name))}(-.+)?", tag)


def test_the_group_of_a_core_kind_is_empty():
    assert versions.api("service").group == ""
    assert versions.api("inference_pool").group == "inference.networking.k8s.io"


@pytest.mark.parametrize(
    "lookup", [versions.api, versions.image, versions.engine_version, versions.gke_minimum]
)
def test_an_unknown_name_is_answered_with_the_known_ones(lookup):
    with pytest.raises(ValueError, match=r"no entry 'nothing' in versions\.yaml, it has "):
        lookup("nothing")


def test_a_gke_minimum_is_a_version():
    for feature in versions.lock()["gke_minimums"]:
        assert re.match(r"1\.\d{2}", versions.gke_minimum(feature))
