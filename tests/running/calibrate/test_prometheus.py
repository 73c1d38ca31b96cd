"""Ten minutes of an engine's metrics in a real Prometheus, loaded and not waited for."""

import json
import re
import subprocess
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from planner.speed.calibrated import read_calibration
from scripts.app import build_app
from scripts.calibrate.series import SCRAPE_SECONDS
from scripts.shared.deployments import deployment_of
from tests.running.programs import until
from tests.unit.calibrate.virtual import scraped
from twin.cluster.monitoring import promql
from twin.host.ports import free_ports
from twin.toolchain.find import tool

pytestmark = pytest.mark.needs_tools

MODEL = "meta-llama/Llama-3.1-8B"
_NAME = re.compile(r"^(vllm:\w+?)(_bucket|_sum|_count)?(\{.*\})? (\S+)$")


def open_metrics(pages: list[str], end: float) -> str:
    """Return the samples of pages as OpenMetrics text with times, one family after the other.

    Histograms are written as gauges of their parts: the names are what queries see.
    """
    families: dict[str, list[str]] = {}
    for number, page in enumerate(pages):
        at = end - SCRAPE_SECONDS * (len(pages) - 1 - number)
        for line in page.splitlines():
            match = _NAME.match(line)
            if match and match[2] != "_bucket":
                name = match[1] + (match[2] or "")
                labels = (match[3] or "{}")[1:-1]
                pod = 'pod="llama-0"' + ("," + labels if labels else "")
                families.setdefault(name, []).append(f"{name}{{{pod}}} {match[4]} {at:.3f}")
    text = "".join(f"# TYPE {n} unknown\n" + "\n".join(v) + "\n" for n, v in families.items())
    return text + "# EOF\n"


def test_a_slow_engine_is_found_in_a_real_prometheus(tmp_path: Path) -> None:
    deployment = deployment_of(MODEL, "nvidia-l4", 1, ["--max-model-len=8192"])
    samples, data = tmp_path / "samples.txt", tmp_path / "data"
    samples.write_text(open_metrics(scraped(deployment, 1.4, 0.5), time.time() - 5))
    subprocess.run(
        [tool("promtool"), "tsdb", "create-blocks-from", "openmetrics", samples, data],
        check=True, capture_output=True,
    )  # fmt: skip
    (tmp_path / "prometheus.yml").write_text("scrape_configs: []\n")
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    arguments = [
        tool("prometheus"), f"--config.file={tmp_path / 'prometheus.yml'}",
        f"--storage.tsdb.path={data}", f"--web.listen-address={address}",
    ]  # fmt: skip
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(arguments, stdout=log, stderr=log) as server,
    ):
        try:
            until(lambda: promql.is_ready(address))
            out = tmp_path / "calibration.yaml"
            asked = [
                "calibrate", "--prometheus", f"http://{address}", "--model", MODEL,
                "--accelerator", "nvidia-l4", "--flag=--max-model-len=8192",
                "--matchers", 'pod=~"llama-.*"', "--write", str(out), "-o", "json",
            ]  # fmt: skip
            result = CliRunner().invoke(build_app(("calibrate",)), asked)
        finally:
            server.terminate()
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.stdout)
    assert found["replicas"] == 1
    assert found["result"]["factor"] == pytest.approx(1.4, rel=0.05)
    assert found["verdict"] == "slower"
    (entry,) = read_calibration(out).entries
    assert entry.step_factor == pytest.approx(1.4, rel=0.05)
