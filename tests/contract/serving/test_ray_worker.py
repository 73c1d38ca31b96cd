"""The script of a worker that joins a Ray cluster."""

import subprocess
from pathlib import Path

from gke_inference.serving import groups


def ray_worker(tmp_path: Path, program: str | None, seconds: float = 5.0) -> tuple[int | None, str]:
    """Run the script of a worker with a stand-in for `ray`; the code is None if it goes on."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "sleep").write_text("#!/bin/sh\nexec /bin/sleep 0.01\n")
    if program is not None:
        (tools / "ray").write_text(f"#!/bin/sh\n{program}\n")
    for file in tools.iterdir():
        file.chmod(0o755)
    with subprocess.Popen(
        ["/bin/bash", "-c", groups.LEADER_WORKER_SET.ray_worker],
        env={"PATH": str(tools), "LWS_LEADER_ADDRESS": "leader.models"},
        stderr=subprocess.PIPE,
        text=True,
    ) as worker:
        try:
            return worker.wait(seconds), worker.communicate()[1]
        except subprocess.TimeoutExpired:
            worker.kill()
            return None, worker.communicate()[1]


def test_a_worker_in_an_image_without_ray_ends_and_says_so(tmp_path: Path):
    code, said = ray_worker(tmp_path, program=None)
    assert code == 127
    assert said == "ray: not found: this image has no Ray\n"


def test_a_worker_says_what_it_waits_for_and_not_at_each_try(tmp_path: Path):
    code, said = ray_worker(tmp_path, "echo connection refused; exit 1", seconds=0.3)
    assert code is None
    assert said == "waiting for Ray on leader.models:6379: connection refused\n"
