"""What the kubelet's server reads about a container."""

import json
from pathlib import Path
from typing import Any

from twin.cluster.agent import views
from twin.cluster.agent.launching.volumes import Mount


def written(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "vllm.container.json").read_text())


def view(**ids: int) -> views.View:
    return views.view_of({"spec": {}}, {"securityContext": ids}, [])


def test_the_user_is_the_containers_else_the_pods_else_root():
    pod = {"spec": {"securityContext": {"runAsUser": 7, "runAsGroup": 8}}}
    container = {"securityContext": {"runAsUser": 9}, "workingDir": "/app"}
    found = views.view_of(pod, container, [Mount("/m", Path("/here"), True)])
    assert (found.uid, found.gid, found.working_dir) == (9, 8, "/app")
    assert views.view_of({"spec": {}}, {}, []) == views.View(0, 0, (), "/")


def test_the_log_of_a_process_begins_where_the_previous_one_ended(tmp_path: Path):
    log = tmp_path / "vllm.log"
    views.write_container(tmp_path, "vllm", log, {}, view(runAsUser=9))
    assert (written(tmp_path)["begin"], written(tmp_path)["previous"]) == (0, None)
    log.write_text("first\n")
    views.write_container(tmp_path, "vllm", log, {}, view(runAsUser=9))
    assert (written(tmp_path)["begin"], written(tmp_path)["previous"]) == (6, [0, 6])


def test_a_shortened_log_has_all_of_its_rest_as_the_previous_part(tmp_path: Path):
    log = tmp_path / "vllm.log"
    log.write_text("a long first output\n")
    views.write_container(tmp_path, "vllm", log, {}, view())
    log.write_text("rest\n")
    views.write_container(tmp_path, "vllm", log, {}, view())
    assert written(tmp_path)["previous"] == [0, 5]


def test_only_the_owner_reads_a_containers_environment(tmp_path: Path):
    views.write_container(tmp_path, "vllm", tmp_path / "log", {"TOKEN": "s"}, view(runAsUser=9))
    assert written(tmp_path)["environment"] == {"TOKEN": "s"}
    assert (tmp_path / "vllm.container.json").stat().st_mode & 0o777 == 0o600


def test_a_command_has_the_variables_of_the_specification_and_the_others_of_the_process(
    tmp_path: Path,
):
    process = {"PYTHONPATH": "/build/root/opt", "HOME": "/root"}
    seen = views.view_of({"spec": {}}, {}, [], {"PYTHONPATH": "/opt"})
    views.write_container(tmp_path, "vllm", tmp_path / "log", process, seen)
    found = json.loads((tmp_path / "vllm.container.json").read_text())["environment"]
    assert (found["PYTHONPATH"], found["HOME"]) == ("/opt", "/root")


def test_root_leaves_the_owners_of_unpacked_files_alone(tmp_path: Path):
    views.write_container(tmp_path, "vllm", tmp_path / "log", {}, view())
    assert written(tmp_path)["environment"] == {"TAR_OPTIONS": "--no-same-owner"}


def test_folders_below_tmp_stay_visible_beside_the_pods_own_tmp():
    found = views.kept_mounts([Path("/tmp/twin"), Path("/home/me/build")])
    assert found == [Mount("/tmp/twin", Path("/tmp/twin"), True)]
