"""The cases of alerts use series as a twin exported them, and are what promtool reads."""

import json
import re

import pytest

from gke_inference.observability.alert_source import alerts
from gke_inference.observability.dashboard_source import dashboards
from gke_inference.observability.promql import Dialect, ModelFacts, Scope
from scripts.check.series import names_in, selectors_in
from simulator.dialects.predictive_metrics import ServerMetrics
from tests.platform.observe.cases import read_cases, series_of_cases
from tests.platform.observe.record import by_job, labels_of, recorded
from twin.host.paths import REPOSITORY

DIALECTS = REPOSITORY / "simulator" / "dialects" / "data"
UNRECORDED = {
    "gke_inference_stream_backlog": "no recorded stack has a stream of Kafka",
    "monitoring_googleapis_com:uptime_check_time_until_ssl_cert_expires": (
        "no recorded stack has a host name whose certificate is checked"
    ),
    "process_resident_memory_bytes": (
        "records have no series of processes; the inventory of a running platform asks for it"
    ),
}
"""Series that no recorded platform exports, by the beginning of their name, and why."""


def test_every_case_of_an_alert_uses_series_that_a_twin_exported_with_their_labels() -> None:
    known = {**_of_dialects(), **labels_of(recorded().values())}
    wrong: dict[str, str] = {}
    for place, text in series_of_cases():
        ((name, labels),) = selectors_in(text.replace("$l", 'namespace="n",cluster="c"'))
        if name.startswith(tuple(UNRECORDED)) and name not in known:
            continue
        missing = set(labels) - known.get(name, set())
        if name not in known or missing:
            wrong[f"{place}: {text}"] = f"without {sorted(missing)}" if name in known else "unknown"
    assert wrong == {}


def _of_dialects() -> dict[str, set[str]]:
    """Return the labels of the metrics of engines whose stacks are not recorded.

    Managed Prometheus adds those of the target, which are the same as with vLLM.
    """
    vllm = labels_of(recorded().values())["vllm:num_requests_running"] - {"engine", "model_name"}
    found: dict[str, set[str]] = {}
    for name in ("sglang", "tgi", "triton"):
        metrics = json.loads((DIALECTS / f"{name}.json").read_text())["metrics"]
        for metric, each in metrics.items():
            labels = {*vllm, *each["labels"]}
            found[metric] = labels
            if each["type"] == "histogram":
                found[f"{metric}_bucket"] = {*labels, "le"}
    return found


def test_every_series_of_predictive_models_that_is_read_is_exported_by_the_twins_server() -> None:
    exporter = ServerMetrics()
    exporter.add_model("fraud", "1")
    exported = {
        line.partition("{")[0] for line in exporter.page().splitlines() if line.startswith("nv_")
    }
    scope = Scope(
        (ModelFacts("fraud", ("fraud-gpu",), engine="tritonserver", predict_seconds=10),), "n"
    )
    found = {each.name: each.expr for each in alerts(scope, Dialect.MANAGED)}
    assert {"PredictionsSlow", "PredictionsFailing", "QueueTooLong"} <= found.keys()
    read = [*found.values()]
    read += [q.expr for page in dashboards(scope) for p in page.panels for q in p.queries]
    used = {name for text in read for name in names_in(text) if name.startswith("nv_")}
    assert "nv_inference_pending_request_count" in used
    assert used - exported == set()


def test_a_series_is_unrecorded_only_while_a_case_uses_it_and_nothing_recorded_it() -> None:
    used = {name for _, text in series_of_cases() for name, _ in selectors_in(text)}
    missing = used - labels_of(recorded().values()).keys()
    useless = [start for start in UNRECORDED if not any(map(re.compile(start).match, missing))]
    assert useless == []


@pytest.mark.parametrize("value", ["0x20", "7", "0.5", "true"])
def test_a_case_whose_values_yaml_reads_as_a_number_is_refused(value: str) -> None:
    text = f"Away: {{at: 5m, fires: {{'up{{job=\"a\"}}': {value}}}, silent: {{}}}}"
    with pytest.raises(
        ValueError, match=r'Away\.fires\.up\{job="a"\}: must be text in quotes, got'
    ):
        read_cases(text)
    quoted = text.replace(f": {value}}}", f": '{value}'}}")
    assert read_cases(quoted)["Away"]["fires"] == {'up{job="a"}': value}


def test_a_case_with_an_unknown_key_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Away: keys must be of .*, got \['quiet'\]"):
        read_cases("Away: {at: 5m, quiet: {}}")


def test_series_are_recorded_by_job_with_the_labels_that_any_of_them_has() -> None:
    found = by_job(
        [
            {"__name__": "up", "job": "a", "pod": "p"},
            {"__name__": "up", "job": "a", "role": "decode"},
            {"__name__": "recorded", "model": "m"},
        ]
    )
    assert found == {"": {"recorded": ["model"]}, "a": {"up": ["job", "pod", "role"]}}
