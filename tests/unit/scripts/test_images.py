"""Decisions and output of `gke-inference images`, with fake registries."""

import base64
import json
from datetime import date

import pytest
import typer

from gke_inference.catalogue.versions import images, lock
from infra.plan import resolve
from infra.plan.image_names import repository_names
from infra.reading.load import STACKS, parse, platform_of, read
from scripts import main
from scripts.images import actions as images_actions
from scripts.images import build as images_build
from scripts.images import command as images_command
from scripts.images import files as images_files
from scripts.images import lock as images_lock
from scripts.images import registry as images_registry
from scripts.images.actions import ImagesError
from scripts.images.registry import Registry, RegistryError, host_of
from scripts.shared.google_cloud import Cloud
from scripts.terminal.console import CommandError
from scripts.terminal.exit_codes import ExitCode
from scripts.terminal.output import Output

ONE, TWO = "sha256:" + "1a" * 32, "sha256:" + "2b" * 32


def stack(name="prod", **changed):
    document = platform_of(STACKS / f"Pulumi.{name}.yaml")
    document["images"] = {"repository": "engines", **changed}
    return parse(json.dumps(document))


def images_of(**changed):
    return resolve(stack(**changed)).images


class Known(Registry):
    """Knows some references, and takes copies."""

    def __init__(self, **found):
        super().__init__()
        self.found = found
        self.copied = []

    def digest(self, reference):
        for part, digest in self.found.items():
            if part in reference:
                return digest
        raise RegistryError(f"{reference}: MANIFEST_UNKNOWN")

    def copy(self, source, target):
        self.copied.append((source, target))


@pytest.mark.parametrize(
    ("reference", "host"),
    [
        ("vllm/vllm-openai:v0.32.0", "docker.io"),
        ("docker.io/vllm/vllm-openai:v0.32.0", "docker.io"),
        ("us-east5-docker.pkg.dev/p/r/i@sha256:0", "us-east5-docker.pkg.dev"),
        ("127.0.0.1:5000/i:1", "127.0.0.1:5000"),
        ("localhost/i:1", "localhost"),
        ("python", "docker.io"),
    ],
)
def test_the_registry_of_a_reference(reference, host):
    assert host_of(reference) == host


def test_every_image_of_a_stack_is_listed_with_what_is_left_to_do():
    found = {
        row.name: row for row in images_actions.rows(images_of(digests={"epp": ONE}), "us-central1")
    }
    assert set(found) == set(resolve(read("prod")).images.needed)
    assert found["endpoint_picker"].reference.endswith(f"/engines/epp@{ONE}")
    assert found["endpoint_picker"].is_pinned
    assert found["endpoint_picker"].note == "from the repository"
    assert found["model_catalogue"].note == "images mirror"
    assert found["body_router"].note == "images build"
    assert found["vllm_tpu"].note == "images build"
    assert found["vllm_gpu"].release == lock()["engines"]["vllm_gpu"]["version"]


def test_an_image_that_is_pulled_through_a_cache_is_listed_there():
    platform = stack(pull_through={"name": "up"}, digests={"epp": ONE})
    found = {row.name: row for row in images_actions.rows(resolve(platform).images, "us-central1")}
    host = "us-central1-docker.pkg.dev/acme-inference-prod"
    assert found["vllm_gpu"].reference.startswith(f"{host}/up-docker-io/vllm/vllm-openai:")
    assert found["vllm_gpu"].note == "pulled through, unpinned: images pin"
    assert found["endpoint_picker"].reference == f"{host}/engines/epp@{ONE}"


def test_what_a_registry_refuses_is_said_and_the_rest_is_pinned():
    said = []
    made = images_actions.pin_lock(Known(**{"vllm-openai": ONE}), [], said.append)
    assert made == {
        "images.vllm_gpu": (ONE, f"registry of docker.io/vllm/vllm-openai, {date.today()}")
    }
    assert any("images.endpoint_picker" in line and "MANIFEST_UNKNOWN" in line for line in said)


def test_a_list_is_of_the_images_that_were_asked_for():
    assert [row.name for row in images_actions.rows(images_of(), "us-central1", ["vllm_tpu"])] == [
        "vllm_tpu"
    ]
    with pytest.raises(ImagesError, match=r"--only: must be one of .*vllm_tpu.*, got 'nosuch'"):
        images_actions.rows(images_of(), "us-central1", ["nosuch"])


def test_a_name_that_the_lock_does_not_know_is_refused_before_any_registry_is_asked():
    with pytest.raises(ImagesError, match=r"--only: must be one of .*go,.*python,.*, got 'nosuch'"):
        images_actions.pin_lock(Known(), ["nosuch"], pytest.fail)


def test_an_image_that_only_our_registry_has_is_asked_of_nobody():
    assert not [entry for entry in images_actions.unpinned() if "diffusion" in entry]


def test_a_digest_goes_into_the_lock_and_every_comment_stays(tmp_path):
    copy = tmp_path / "versions.yaml"
    copy.write_text(images_files.LOCK.read_text())
    images_files.write_lock({"images.vllm_gpu": (ONE, "registry, 2026-11-21")}, copy)
    before, after = images_files.LOCK.read_text().splitlines(), copy.read_text().splitlines()
    new = [line for line in after if line not in before]
    assert new == [f"    digest: {ONE}", "    digest_source: registry, 2026-11-21"]
    assert [line for line in before if line.lstrip().startswith("#") and line not in after] == []
    assert len(after) == len(before) + 1


def test_digests_go_into_a_stack_and_the_rest_stays_as_it_is(tmp_path):
    for name in ("prod", "staging"):
        source = STACKS / f"Pulumi.{name}.yaml"
        (tmp_path / source.name).write_text(source.read_text())
        images_files.write_stack(name, {"vllm-tpu": TWO, "epp": ONE}, tmp_path)
        images_files.write_stack(name, {"body-router": ONE}, tmp_path)
        platform = read(name, tmp_path)
        assert platform.images is not None
        assert list(platform.images.digests.items()) == [
            ("body-router", ONE),
            ("epp", ONE),
            ("vllm-tpu", TWO),
        ]
        assert platform.model_copy(update={"images": None}) == read(name).model_copy(
            update={"images": None}
        )
        comments = [line.split("#")[1] for line in source.read_text().splitlines() if "#" in line]
        assert all(comment in (tmp_path / source.name).read_text() for comment in comments)


def test_a_stack_is_pinned_only_to_what_is_the_same_in_every_region():
    known = Known(**{"us-central1": ONE, "europe-west4": ONE, "asia-northeast1": ONE})
    made = images_actions.pin_stack(known, images_of(), "abc", ["vllm_tpu"], lambda _: None)
    assert made == {"vllm-tpu": ONE}
    said = []
    known.found["asia-northeast1"] = TWO
    assert images_actions.pin_stack(known, images_of(), "abc", ["vllm_tpu"], said.append) == {}
    assert "must be the same image in us-central1, europe-west4, asia-northeast1" in said[-1]


def test_a_mirror_copies_by_digest_into_every_region_and_looks_at_what_arrived():
    known = Known(**{"nginx-unprivileged": images()["model_catalogue"].digest})
    made = images_actions.mirror(
        known, images_of(), ["model_catalogue"], lambda _: None, dry_run=False
    )
    assert made == {"nginx-unprivileged": images()["model_catalogue"].digest}
    assert [source for source, _ in known.copied] == [
        f"docker.io/nginxinc/nginx-unprivileged@{images()['model_catalogue'].digest}"
    ] * 3
    assert known.copied[1][1] == (
        "europe-west4-docker.pkg.dev/acme-inference-prod/engines/nginx-unprivileged:1.28.0-alpine"
    )


def test_a_copy_that_arrives_as_something_else_is_an_error():
    known = Known(**{"nginx-unprivileged": ONE})
    with pytest.raises(RegistryError, match="must have digest"):
        images_actions.mirror(
            known, images_of(), ["model_catalogue"], lambda _: None, dry_run=False
        )


@pytest.mark.parametrize(
    ("platform", "only", "message"),
    [
        (read("local"), [], "^images: is required in the stack"),
        (
            stack(),
            ["endpoint_picker"],
            r"must have a digest in .*, got .*epp:v[\d.]+; .*images pin",
        ),
        (
            stack(),
            ["picker"],
            "--only: must be one of .*, got 'picker'; did you mean 'endpoint_picker'",
        ),
    ],
)
def test_what_cannot_be_mirrored_is_refused_before_anything_is_copied(platform, only, message):
    known = Known()
    with pytest.raises(ImagesError, match=message):
        images_actions.mirror(known, resolve(platform).images, only, lambda _: None, dry_run=False)
    assert known.copied == []


def test_a_token_of_google_goes_to_googles_registries_alone(monkeypatch, tmp_path):
    program = tmp_path / "crane"
    program.write_text('#!/bin/sh\ncat "$DOCKER_CONFIG/config.json" > "$0.saw"\necho ' + ONE)
    program.chmod(0o755)
    monkeypatch.setattr(images_registry, "tool", lambda _: program)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text('{"auths": {"ghcr.io": {"auth": "mine"}}}')
    saw = tmp_path / "crane.saw"
    registry = Registry(token=lambda: "secret")
    assert registry.digest("us-docker.pkg.dev/p/r/i:1") == ONE
    auths = json.loads(saw.read_text())["auths"]
    assert base64.b64decode(auths["us-docker.pkg.dev"]["auth"]) == b"oauth2accesstoken:secret"
    assert auths["ghcr.io"] == {"auth": "mine"}
    registry.digest("docker.io/library/python:3.12")
    assert "us-docker.pkg.dev" not in saw.read_text()
    assert "evil-docker.pkg.dev.example.com" not in saw.read_text()
    registry.digest("evil-docker.pkg.dev.example.com/i:1")
    assert "oauth2accesstoken" not in saw.read_text()


def test_programs_that_keep_logins_stay_for_other_registries_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    own = {"credsStore": "desktop", "credHelpers": {"us-docker.pkg.dev": "gcloud", "a.io": "a"}}
    (tmp_path / "config.json").write_text(json.dumps(own))
    saw = tmp_path / "crane.saw"
    program = tmp_path / "crane"
    program.write_text(f'#!/bin/sh\ncat "$DOCKER_CONFIG/config.json" > {saw}\n')
    program.chmod(0o755)
    monkeypatch.setattr(images_registry, "tool", lambda _: program)
    Registry(token=lambda: "secret").copy("a.io/i:1", "us-docker.pkg.dev/p/r/i:1")
    assert json.loads(saw.read_text())["credHelpers"] == {"a.io": "a"}
    Registry(token=lambda: "secret").copy("docker.io/i:1", "us-docker.pkg.dev/p/r/i:1")
    seen = json.loads(saw.read_text())
    assert seen["credHelpers"] == {"https://index.docker.io/v1/": "desktop"}
    assert "us-docker.pkg.dev" in seen["auths"]


def test_a_registry_that_does_not_end_is_an_error_of_one_line(monkeypatch, tmp_path):
    program = tmp_path / "crane"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr(images_registry, "tool", lambda _: program)
    monkeypatch.setattr(images_registry, "_TIMEOUT_SECONDS", 0.2)
    with pytest.raises(RegistryError, match="did not finish within"):
        Registry().digest("a.io/i:1")


def test_an_answer_that_is_no_digest_is_an_error(monkeypatch, tmp_path):
    program = tmp_path / "crane"
    program.write_text("#!/bin/sh\necho hello")
    program.chmod(0o755)
    monkeypatch.setattr(images_registry, "tool", lambda _: program)
    with pytest.raises(RegistryError, match="must return a digest, got 'hello'"):
        Registry().digest("docker.io/library/python:3.12")


BUILT = {"source": {"repository": "projects/a/locations/us-east5/connections/c/repositories/r"}}


def test_a_build_runs_the_trigger_of_the_image_at_the_commit():
    sent = []

    class Answer:
        status_code = 200
        text = "{}"

        def json(self):
            return {"metadata": {"build": {"logUrl": "https://console/1"}}}

    class Session:
        def request(self, method, url, **rest):
            sent.append((method, url, rest["json"]))
            return Answer()

    platform = stack(build=BUILT)
    target = images_build.targets(resolve(platform).images, ["vllm_tpu"], "abc")[0]
    said = []
    images_build.start(Cloud("acme", Session()), resolve(platform).images, target, said.append)
    assert sent == [
        (
            "POST",
            "https://cloudbuild.googleapis.com/v1/projects/acme-inference-prod/locations/us-east5"
            "/triggers/gke-inference-vllm-tpu:run",
            {"source": {"commitSha": "abc"}},
        )
    ]
    assert said == ["vllm-tpu: https://console/1"]


def test_a_dry_run_shows_the_whole_build_or_the_command():
    platform = stack(build=BUILT)
    target = images_build.targets(resolve(platform).images, ["vllm_tpu"], "abc")[0]
    shown = images_build.show(resolve(platform).images, target, local=False)
    assert [step["id"] for step in shown["build"]["steps"]] == ["build", "scan", "copy"]
    command = images_build.show(resolve(platform).images, target, local=True)["command"]
    assert command.startswith("docker buildx build ")
    assert "vllm-tpu:0.29.0-abc" in command


@pytest.mark.parametrize(
    ("only", "local", "message"),
    [
        (["vllm_gpu"], True, r"images\.vllm_gpu: must have a digest in .*images pin"),
        (["vllm_tpu"], False, r"^images\.build: is required in the stack"),
        (
            ["sglang_gpu"],
            False,
            "--only: must be one of body_router, callout, vllm_gpu, vllm_tpu, got 'sglang_gpu'",
        ),
    ],
)
def test_what_cannot_be_built_is_refused(only, local, message):
    plan = images_of()
    with pytest.raises(ImagesError, match=message):
        images_build.show(plan, images_build.targets(plan, only, "abc")[0], local=local)


def test_no_two_images_have_one_name_in_a_repository():
    names = list(repository_names().values())
    assert len(set(names)) == len(names)


def listed(capsys, *, sizes=False, output=Output.TABLE):
    images_command.list_images("prod", sizes=sizes, output=output)
    return capsys.readouterr().out


def test_a_list_as_json_has_every_reference_whole(capsys):
    rows = json.loads(listed(capsys, output=Output.JSON))
    assert [row["image"] for row in rows] == resolve(read("prod")).images.needed
    pinned = [row for row in rows if row["is_pinned"]]
    assert pinned
    assert all(row["reference"].endswith("@" + row["digest"]) for row in pinned)
    assert all(row["digest"] is None for row in rows if not row["is_pinned"])
    assert all("size_bytes" not in row for row in rows)


def test_a_size_that_is_not_known_is_said_with_the_reason(capsys, monkeypatch):
    def size(_, reference):
        if "vllm-openai" in reference:
            return 2**31
        raise RegistryError(f"{reference}: fetching manifest {reference}: no such host")

    monkeypatch.setattr(Registry, "size_bytes", size)
    said = listed(capsys, sizes=True)
    assert "2.00" in said
    assert "endpoint_picker" in said.splitlines()[-1]
    assert said.splitlines()[-1].endswith("weights_gate: no such host")
    rows = {row["image"]: row for row in json.loads(listed(capsys, sizes=True, output=Output.JSON))}
    assert rows["vllm_gpu"]["size_bytes"] == 2**31
    assert rows["vllm_tpu"]["size_problem"] == "no such host"


def test_what_is_pinned_already_is_said(capsys):
    images_command.pin(only=["python"])
    digest = lock()["bases"]["python"]["digest"]
    assert capsys.readouterr().out == f"bases.python: is already pinned to {digest}\n"


def test_the_image_that_only_our_registry_has_says_how_it_is_pinned():
    said = []
    assert images_actions.pin_lock(Known(), ["diffusion_tpu"], said.append) == {}
    assert said == [
        "images.diffusion_tpu: is only in our own registries: run images build, then pin --stack"
    ]


def test_only_the_locks_that_were_asked_for_are_made(monkeypatch, capsys):
    resolved = []

    def resolve(self, *, upgrade=False):
        resolved.append(self.folder.name)
        return self.locked.read_text()

    monkeypatch.setattr(images_lock.PackageLock, "resolve", resolve)
    images_command.lock(only=["vllm_tpu"])
    assert resolved == ["vllm-tpu"]
    assert capsys.readouterr().out == "up to date: vllm_tpu\n"
    with pytest.raises(
        CommandError,
        match=r"^--only: must be one of batch, diffusion_tpu, evaluation, guardrails,",
    ):
        images_command.lock(only=["sglang_gpu"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("lock --stack prod", "--stack: is not an option of gke-inference images lock"),
        ("build --stack prod --sizes", "--sizes: is not an option of gke-inference images build"),
        ("pin --jsn", "--jsn: is not an option of gke-inference images pin"),
        ("pin --revision abc", "--revision: must be omitted without --stack"),
        ("list", "--stack: is required"),
        ("list --stack prod --only vlm_tpu", r"--only: .*did you mean 'vllm_tpu'\?"),
    ],
)
def test_an_option_that_does_not_apply_is_refused(monkeypatch, line, message):
    with pytest.raises(CommandError, match=f"^{message}"):
        main._run(["images", *line.split()])


def test_a_lock_that_is_out_of_date_fails_a_dry_run(monkeypatch, capsys):
    monkeypatch.setattr(images_lock.PackageLock, "resolve", lambda *_, **__: "changed")
    with pytest.raises(typer.Exit) as ended:
        images_command.lock(only=["vllm_tpu"], dry_run=True)
    assert ended.value.exit_code == ExitCode.CHECK_FAILED
    assert "1 locks are out of date" in capsys.readouterr().out
