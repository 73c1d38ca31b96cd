import re
import subprocess
from pathlib import Path

import pytest

from gke_inference.catalogue.versions import builds, engine_version, lock
from scripts.images import lock as images_lock
from scripts.images.lock import locks
from tests.contract.serving import dockerfiles
from twin.host.paths import WORKLOADS

OURS = sorted(build.target for build in builds().values())
ENGINES = sorted(build.target for name, build in builds().items() if name in lock()["engines"])


FILE = WORKLOADS / "images" / "Dockerfile"


def read(folder, tmp_path):
    return dockerfiles.Dockerfile.read(FILE, WORKLOADS, tmp_path, folder)


def exists(source):
    return (WORKLOADS / source).exists()


def test_every_target_of_the_dockerfile_is_in_the_lock(tmp_path):
    assert sorted(dockerfiles.targets(FILE, tmp_path)) == OURS


@pytest.mark.parametrize("folder", OURS)
def test_a_dockerfile_breaks_no_rule(folder, tmp_path):
    assert dockerfiles.problems(read(folder, tmp_path), exists) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("ARG BASE\n", "ARG BASE=vllm/vllm-openai:latest\n", "must have no default"),
        ("FROM ${BASE} AS", "FROM vllm/vllm-openai:v0.32.0 AS", "a stage or a digest"),
        ("USER 1000:1000", "USER engine", "must end as UID:GID"),
        ("USER 1000:1000", "USER 0:0", "must end as UID:GID"),
        ("USER 1000:1000\n", "", "must end as UID:GID"),
        ("RUN install", "RUN curl -fsSL https://example.com | sh && install", "must not download"),
        ("RUN install", "RUN apt-get install -y gcc && install", "have no lock"),
        ("RUN install", "RUN pip install vllm && install", "--require-hashes"),
        ("COPY --chmod", "ADD https://example.com/x.tar.gz /\nCOPY --chmod", "must be COPY"),
        ("COPY --chmod", "COPY https://example.com/x /\nCOPY --chmod", "must not be remote"),
        ("ENV HOME", "ENV HF_TOKEN=hf_abc HOME", "must hold no secret"),
        ("engine/ /opt", "motor/ /opt", "there is no motor/"),
        ("engine/ /opt", "infra/../infra /opt", "does not let"),
        ('ENTRYPOINT ["python3", "-m", "engine"]', "ENTRYPOINT python3 -m engine", "a JSON list"),
        ('"-m", "engine"]', '"-m", "http.server"]', "must be the launcher"),
        ("USER", "HEALTHCHECK CMD true\nUSER", "must not be set"),
        (".revision", ".revisions", "must have org.opencontainers.image.revision"),
    ],
)
def test_a_broken_rule_is_found(old, new, message, tmp_path):
    assert old in FILE.read_text()
    broken = tmp_path / "broken"
    broken.mkdir()
    path = broken / "Dockerfile"
    path.write_text(FILE.read_text().replace(old, new))
    Path(f"{path}.dockerignore").write_text(Path(f"{FILE}.dockerignore").read_text())
    file = dockerfiles.Dockerfile.read(path, WORKLOADS, tmp_path, "vllm-gpu")
    assert message in "\n".join(dockerfiles.problems(file, exists))


@pytest.mark.parametrize("folder", sorted(locks()))
def test_a_lock_was_made_from_the_packages_python_and_platform_of_today(folder):
    assert locks()[folder].is_current(), "run `gke-inference images lock`"


def test_a_package_that_is_added_makes_a_lock_out_of_date(tmp_path):
    real = locks()["vllm-tpu"]
    (tmp_path / "requirements.in").write_text(real.wanted.read_text())
    (tmp_path / "requirements.lock").write_text(real.locked.read_text())
    copy = images_lock.PackageLock(tmp_path)
    assert copy.is_current()
    copy.wanted.write_text(real.wanted.read_text() + "numpy\n")
    assert not copy.is_current()


def test_a_file_that_the_packages_refer_to_counts_too(tmp_path):
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "requirements.in").write_text("-r ../own.in\n")
    (tmp_path / "own.in").write_text("numpy\n")
    found = images_lock.PackageLock(tmp_path / "image")
    before = found.mark()
    (tmp_path / "own.in").write_text("numpy>=2\n")
    assert found.mark() != before


@pytest.mark.parametrize("folder", sorted(locks()))
def test_every_package_of_a_lock_has_hashes_and_no_address(folder):
    text = locks()[folder].locked.read_text()
    packages = re.findall(r"^([a-z0-9][^ ]*==\S+) \\\n    --hash=sha256:[0-9a-f]{64}", text, re.M)
    lines = [line for line in text.splitlines() if re.match(r"[a-z0-9]", line)]
    assert len(packages) == len(lines)
    if locks()[folder].is_addition:  # what the base has is tested together upstream
        wanted = re.findall(r"^[a-z]+", locks()[folder].wanted.read_text(), re.M)
        assert [package.split("==")[0] for package in packages] == wanted
    else:
        assert len(packages) > 20
    assert "://" not in text
    assert "--index" not in text


def test_images_of_both_kinds_of_hardware_have_the_same_ray():
    def ray(folder: str) -> list[str]:
        return re.findall(r"^ray==(\S+)", locks()[folder].locked.read_text(), re.M)

    assert ray("vllm-gpu") == ray("vllm-tpu") != []


@pytest.mark.parametrize("folder", ENGINES)
def test_the_engine_in_an_image_is_the_release_that_its_arguments_are_made_for(folder, tmp_path):
    build = next(build for build in builds().values() if build.target == folder)
    assert build.version == engine_version(build.name)
    if build.base_entry.startswith("images."):  # its base holds the engine
        base = lock()["images"][build.base_entry.removeprefix("images.")]
        assert build.base_entry == f"images.{build.name}"
        assert base["tag"].removeprefix("v").startswith(build.version)
        return
    if folder == "diffusion-tpu":  # our own program
        return
    found = re.search(rf"^{folder}==(\S+) ", locks()[folder].locked.read_text(), re.M)
    assert found is not None
    assert found.group(1) == build.version
    assert f"{folder}=={build.version}" in locks()[folder].wanted.read_text()


def test_the_callouts_image_has_its_release_and_compiles_with_the_go_that_its_sources_need():
    build = builds()["callout"]
    wanted = re.search(r"^go (\d+\.\d+)", (WORKLOADS / "gateway" / "go.mod").read_text(), re.M)
    assert wanted is not None
    assert build.base_entry == "bases.go"
    assert build.base.tag.startswith(f"{wanted.group(1)}.")
    assert lock()["images"]["callout"]["tag"] == f"v{build.version}"


def test_the_packages_are_locked_for_the_python_of_their_base():
    for build in builds().values():
        if build.target in locks() and not locks()[build.target].is_addition:
            assert build.base_entry == "bases.python"
            assert build.base.tag.startswith(f"{images_lock.PYTHON}.")


@pytest.mark.parametrize("folder", [each for each in ENGINES if each != "diffusion-tpu"])
def test_a_build_refuses_another_release_than_the_lock_says(folder, tmp_path):
    own = read(folder, tmp_path).last
    assert [each["value"] for each in own if each["instruction"] == "ARG"] == ["ENGINE_VERSION"]
    assert any(each["instruction"] == "RUN" and "ENGINE_VERSION" in each["value"] for each in own)


@pytest.mark.needs_tools
@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(folder, marks=pytest.mark.soak if folder != "batch" else ())
        for folder in sorted(locks())
    ],
)
def test_what_a_lock_pins_can_still_be_had(folder):
    found = locks()[folder]
    assert found.resolve() == found.locked.read_text()


@pytest.mark.needs_tools
def test_a_pin_that_nobody_has_is_refused(tmp_path):
    (tmp_path / "requirements.in").write_text("aiohttp==0.0.1.dev999\n")
    with pytest.raises(images_lock.LockError, match="cannot be resolved"):
        images_lock.PackageLock(tmp_path).resolve()


def test_resolving_leaves_no_address_behind(monkeypatch, tmp_path):
    asked = []

    def run(argv, **_):
        asked.append(argv)
        return subprocess.CompletedProcess(argv, 0, "", "")

    monkeypatch.setattr(images_lock.subprocess, "run", run)
    (tmp_path / "requirements.in").write_text("numpy\n")
    (tmp_path / "requirements.lock").write_text("numpy==1\n")
    images_lock.PackageLock(tmp_path).resolve()
    assert {"--no-emit-index-url", "--no-emit-find-links", "--generate-hashes"} <= set(asked[0])


@pytest.mark.parametrize("name", ["batch", "guardrails", "personal", "stream"])
def test_an_image_of_python_alone_adds_only_its_program(name, tmp_path):
    first, *own = read(name, tmp_path).last
    assert first["value"] == f"service AS {name}"
    copied = [each["value"] for each in own if each["instruction"] == "COPY"]
    assert copied[-1] == f"--chmod=0555 {name}/ /opt/gke-inference/workloads/{name}/"
    assert all(each.startswith("--chmod=0555 ") for each in copied)
    assert sum(each["instruction"] == "RUN" for each in own) == 1


@pytest.mark.parametrize("name", OURS)
def test_an_image_copies_every_folder_that_its_programs_import(name, tmp_path):
    """A folder that is missing in an image fails there only, at the build or at the start."""
    copied = {
        word.rstrip("/")
        for each in read(name, tmp_path).all("COPY")
        for word in each.split()[:-1]
        if not word.startswith(("--", "/", "images/"))
    }
    for folder in sorted(copied - {"__init__.py", "gateway"}):
        for file in (WORKLOADS / folder).rglob("*.py"):
            for imported in re.findall(
                r"^\s*from (?:workloads|\.\.)\.?(\w+)[. ]", file.read_text(), re.M
            ):
                is_folder = (WORKLOADS / imported / "__init__.py").exists()
                assert not is_folder or imported in copied, f"{file} imports {imported}"
