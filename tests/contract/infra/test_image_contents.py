"""Every container of the stacks and examples can start in its image."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gke_inference.catalogue.image_contents import (
    Contents,
    contents,
    contents_of,
    missing_program,
    shell_programs,
)
from gke_inference.catalogue.versions import builds, images, lock
from infra.reading.load import STACKS, parse, platform_of
from tests.contract.infra.cloud import Deployed
from tests.shipped_stacks import EXAMPLES
from twin.host.paths import REPOSITORY

FILES = [
    file
    for file in (*STACKS.glob("Pulumi.*.yaml"), *EXAMPLES.glob("*/Pulumi.*.yaml"))
    if platform_of(file).get("layer") != "serving"
]
IMAGES = REPOSITORY / "workloads" / "images"


def pod_specs(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the pod specifications below a value."""
    if isinstance(value, dict):
        containers = value.get("containers")
        if isinstance(containers, list) and all("image" in each for each in containers):
            yield value
        for each in value.values():
            yield from pod_specs(each)
    elif isinstance(value, list):
        for each in value:
            yield from pod_specs(each)


def problems(pod: dict[str, Any], container: dict[str, Any]) -> Iterator[str]:
    """Yield why a container cannot start in its image."""
    found = contents_of(container["image"])
    if found is None:
        yield "the catalogue does not have its image"
        return
    mounts = container.get("volumeMounts") or []
    command, args = container.get("command") or [], container.get("args") or []
    missing = missing_program(found, command, args, [each["mountPath"] for each in mounts])
    if missing is not None:
        yield missing.message
    both = [pod.get("securityContext") or {}, container.get("securityContext") or {}]
    merged = {name: value for each in both for name, value in each.items()}
    uid = merged.get("runAsUser", found.user.partition(":")[0])
    if merged.get("runAsNonRoot") and str(uid) in ("", "0"):
        yield f"runAsNonRoot, and its user is {uid!r}"
    written = {each["mountPath"] for each in mounts if not each.get("readOnly")}
    if merged.get("readOnlyRootFilesystem") and not command and set(found.writes) - written:
        yield f"its root is read-only, and it writes to {found.writes}"


@pytest.mark.parametrize("file", sorted(FILES), ids=lambda file: file.stem.removeprefix("Pulumi."))
def test_the_program_of_every_container_is_in_its_image(deployed: Deployed, file: Path) -> None:
    made = deployed(parse(json.dumps(platform_of(file)))).registrations
    pods = [
        pod
        for seen in made
        if seen.type.startswith("kubernetes:")
        for pod in pod_specs(seen.inputs)
    ]
    assert pods
    found = [
        (container["name"], container["image"], why)
        for pod in pods
        for container in [*(pod.get("initContainers") or []), *pod["containers"]]
        for why in problems(pod, container)
    ]
    assert found == []


def test_the_catalogue_has_the_contents_of_every_image_and_build_of_the_lock() -> None:
    targets = {build.target for build in builds().values()}
    ours = {name for name, image in images().items() if image.is_placeholder}
    assert set(contents()) == (set(images()) - ours) | targets


def test_a_stock_image_of_vllm_has_no_ray_and_the_pod_would_not_start() -> None:
    image = images()["vllm_gpu"].reference
    container = {"name": "vllm", "image": image, "command": ["bash", "-c", "ray start --head"]}
    assert [*problems({}, container)] == ["bash: ray: command not found"]


@pytest.mark.parametrize(
    ("container", "says"),
    [
        ({"securityContext": {"runAsNonRoot": True}}, "runAsNonRoot, and its user is '0'"),
        ({"image": "example.com/none:1"}, "the catalogue does not have its image"),
        ({"command": ["/usr/bin/curl"]}, 'exec: "/usr/bin/curl": stat /usr/bin/curl: no such'),
    ],
)
def test_each_reason_why_a_container_cannot_start_is_found(container, says) -> None:
    image = images()["weights_gate"].reference
    (found,) = problems({}, {"name": "c", "image": image, **container})
    assert found.startswith(says)


def test_a_web_server_with_a_read_only_root_needs_its_folder_for_temporary_files() -> None:
    image = images()["model_catalogue"].reference
    root = {"securityContext": {"readOnlyRootFilesystem": True}}
    assert [*problems({}, {"image": image, **root})] == [
        "its root is read-only, and it writes to ('/tmp',)"
    ]
    mounts = {"volumeMounts": [{"mountPath": "/tmp", "name": "t"}]}
    assert [*problems({}, {"image": image, **root, **mounts})] == []


@pytest.mark.parametrize("target", sorted(build.target for build in builds().values()))
def test_the_entry_point_and_the_user_of_a_build_are_those_of_its_dockerfile(target: str) -> None:
    text = (IMAGES / "Dockerfile").read_text()
    _, start, rest = text.partition(f" AS {target}\n")
    assert start
    last = rest.partition("\nFROM ")[0]
    (entry,) = re.findall(r"^ENTRYPOINT (\[.*\])$", last, re.M)
    (user,) = re.findall(r"^USER (\S+)$", last, re.M)
    found: Contents = contents()[target]
    assert (list(found.entrypoint), found.user) == (json.loads(entry), user)
    has_shell = f"FROM program AS {target}\n" not in text
    assert found.has("bash") == has_shell
    assert found.has("ray") == (target == "vllm-tpu" or "ray --version" in last)


def test_the_programs_of_a_script_are_found() -> None:
    script = """set -eu
# a comment with ray
X=1 exec python3 - <<'END'
import ray
END
command -v ray >/dev/null || { echo "ray: not found; sorry" >&2; exit 127; }
until said=$(ray health-check --address "$A:1" 2>&1); do n=$((n + 1)); sleep 2; done
if lsmod | grep nvidia; then /cos-gpu-installer install; fi
for file in a b; do cp $file /b & done
"$PROGRAM" run
"""
    programs = ["python3", "sleep", "lsmod", "grep", "/cos-gpu-installer", "cp", "ray"]
    assert shell_programs(script) == programs


def test_an_image_that_only_we_build_says_which_target_of_the_dockerfile_it_is() -> None:
    ours = {name: image for name, image in images().items() if image.is_placeholder}
    assert {name: lock()["images"][name]["source"] for name in ours} == {
        name: f"target {builds()[name].target} of workloads/images/Dockerfile" for name in ours
    }
