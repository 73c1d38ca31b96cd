import json
import re
from dataclasses import replace
from pathlib import Path

import pulumi
import pytest

from gke_inference.catalogue.engines import engine, engine_names
from gke_inference.observability import dashboard_source, promql
from gke_inference.observability.alert_source import alerts
from gke_inference.observability.dashboard_source import UNITS, dashboards
from gke_inference.observability.dashboards import Dashboards
from gke_inference.observability.promql import Dialect, ModelFacts, Scope, fill
from gke_inference.operators.queue_monitoring import METRICS as KUEUE_METRICS
from tests.contract.components_gcp.observed import (
    BATCH_METRICS,
    CALLOUT_METRICS,
    MIXED,
    RELAY_METRICS,
    ROUTER_METRICS,
    SCOPE,
    args,
    model,
)

DASHBOARD = "gcp:monitoring/dashboard:Dashboard"
FOLDER = Path(__file__).parent
# Name of every metric of picker v1.5.0, and of GKE's kube state and system metrics that are used.
PICKER_METRICS = {
    *(FOLDER / "picker-metrics.txt").read_text().split(),
    # of every program in Go with Prometheus' client
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
}
GKE_METRICS = {
    # cloud.google.com/kubernetes-engine/docs/how-to/kube-state-metrics
    "kube_horizontalpodautoscaler_spec_max_replicas",
    "kube_horizontalpodautoscaler_spec_min_replicas",
    "kube_horizontalpodautoscaler_status_desired_replicas",
    "kube_pod_status_phase",
    "kube_pod_status_unschedulable",
    # cloud.google.com/monitoring/api/metrics_kubernetes
    "kubernetes_io:container_accelerator_duty_cycle",
    "kubernetes_io:container_accelerator_memory_total",
    "kubernetes_io:container_accelerator_memory_used",
    "kubernetes_io:container_restart_count",
    # cloud.google.com/monitoring/api/metrics_gcp
    "loadbalancing_googleapis_com:https_external_regional_request_count",
    "loadbalancing_googleapis_com:https_external_regional_total_latencies_bucket",
    "monitoring_googleapis_com:uptime_check_check_passed",
    "monitoring_googleapis_com:uptime_check_time_until_ssl_cert_expires",
    "pubsub_googleapis_com:subscription_num_undelivered_messages",
    "pubsub_googleapis_com:subscription_oldest_unacked_message_age",
    # recorded by Monitoring
    "gke_inference:unplaced_replicas",
}
METRIC = re.compile(
    r"\b(?:vllm|kubernetes_io|loadbalancing_googleapis_com|gke_inference"
    r"|monitoring_googleapis_com|pubsub_googleapis_com):\w+"
    r"|\b(?:kube|kueue|inference|process|callout|relay|body_router|gke_inference_(?:batch|stream))_\w+"
)


def metrics_of(expression):
    without_values = re.sub(r'"[^"]*"', '""', expression)
    return set(METRIC.findall(without_values)) - {"inference_pool"}


def panels():
    return [panel for page in dashboards(SCOPE) for panel in page.panels]


def build(recorder, **changes):
    recorder.run(lambda: Dashboards("dashboards", args(**changes)).names)
    return recorder


def test_every_metric_is_one_that_somebody_exports_and_that_is_scraped():
    used = {m for p in panels() for q in p.queries for m in metrics_of(q.expr)}
    engines = {name for name in used if name.startswith("vllm:")}
    stored = engine("vllm").metrics.stored()
    assert [name for name in engines if not any(re.fullmatch(p, name) for p in stored)] == []
    others = {name.removesuffix("_sum").removesuffix("_count") for name in used - engines}
    ours = CALLOUT_METRICS | RELAY_METRICS | ROUTER_METRICS | BATCH_METRICS
    assert (
        others
        - PICKER_METRICS
        - GKE_METRICS
        - {f"{m}_bucket" for m in PICKER_METRICS | ours}
        - ours
        - {name for name in others if any(re.fullmatch(p, name) for p in KUEUE_METRICS)}
        - {"loadbalancing_googleapis_com:https_external_regional_request"}
        == set()
    )


def test_latencies_have_their_90th_percentile_and_accelerators_their_memory():
    shown = [query.expr for panel in panels() for query in panel.queries]
    tenths = [expr for expr in shown if expr.startswith("histogram_quantile(0.90,")]
    assert [re.findall(r"vllm:\w+_bucket", expr) for expr in tenths] == [
        ["vllm:time_to_first_token_seconds_bucket"],
        ["vllm:e2e_request_latency_seconds_bucket"],
    ]
    (memory,) = [expr for expr in shown if "accelerator_memory_used" in expr]
    assert "/ avg by (pod_name) (kubernetes_io:container_accelerator_memory_total" in memory


def test_every_metric_of_any_engine_is_stored():
    stored = [
        pattern
        for name in engine_names()
        for pattern in engine(name).metrics.stored(has_tiers=True)
    ]
    found = [q.expr for page in dashboards(MIXED) for p in page.panels for q in p.queries]
    found += [alert.expr for alert in alerts(MIXED, Dialect.MANAGED)]
    used = {
        name
        for expr in found
        for name in re.findall(r"\b(?:sglang:|vllm:|diffusion_|tgi_|nv_)\w+", expr)
    }
    assert {"sglang:num_queue_reqs", "diffusion_images_total", "tgi_queue_size"} <= used
    assert {"nv_inference_request_failure", "vllm:kv_offload_load_bytes_total"} <= used
    assert [name for name in used if not any(re.fullmatch(p, name) for p in stored)] == []


def test_models_of_several_engines_are_looked_for_each_under_its_own_names():
    assert fill("avg ($waiting)", MIXED, "5m") == (
        'avg ((diffusion_images_waiting{namespace="models",job=~"flux"}'
        ' or sglang:num_queue_reqs{namespace="models",job=~"qwen"}'
        ' or tgi_queue_size{namespace="models",job=~"mistral"}'
        ' or nv_trt_llm_request_metrics{namespace="models",job=~"gemma",request_type="waiting"}'
        ' or nv_inference_pending_request_count{namespace="models",job=~"fraud"}'
        ' or vllm:num_requests_waiting{namespace="models",job=~"embedder|llama|rare"}))'
    )
    assert fill("rate($first_token[5m]) > 1", MIXED, "5m") == (
        'rate(sglang:time_to_first_token_seconds_bucket{namespace="models",job=~"qwen"}[5m]) > 1'
        " or rate(vllm:time_to_first_token_seconds_bucket"
        '{namespace="models",job=~"embedder|llama|rare"}[5m]) > 1'
    )


def test_a_metric_that_no_engine_of_the_stack_has_is_nothing_and_no_error():
    drawing = Scope((ModelFacts("flux", ("flux-tpu",), engine="diffusion"),), "models")
    assert fill("rate($first_token[5m])", drawing, "5m") == "vector(0) < 0"
    assert fill("max ($kv_use)", drawing, "5m") == "max ((vector(0) < 0))"


def test_labels_of_an_engines_metric_stay():
    scope = Scope((ModelFacts("m", ("m-gpu",), engine="triton"),), "models")
    assert fill("$waiting", scope, "5m") == (
        'nv_trt_llm_request_metrics{namespace="models",job=~"m",request_type="waiting"}'
    )


def test_images_have_a_page_where_a_model_generates():
    drawn = {page.name for page in dashboards(MIXED)} - {page.name for page in dashboards(SCOPE)}
    assert drawn == {"images"}


def test_an_engine_and_kv_cache_tiers_have_rows_where_the_stack_has_them():
    def rows(scope):
        (page,) = [page for page in dashboards(scope) if page.name == "engines"]
        return [row.title for row in page.rows]

    assert rows(SCOPE) == ["Load", "Work"]
    assert rows(MIXED) == ["Load", "Work", "KV cache tiers", "TGI", "Triton", "Predictive models"]


def rows_of_clients(scope):
    return [row.title for page in dashboards(scope) if page.name == "clients" for row in page.rows]


def test_clients_have_a_page_with_the_rows_that_the_stack_has_something_for():
    assert rows_of_clients(replace(SCOPE, has_clients=False)) == []
    plain = replace(SCOPE, has_guards=False, has_backends=False)
    assert rows_of_clients(plain) == ["Usage", "Limits", "Gate"]
    assert rows_of_clients(SCOPE) == ["Usage", "Limits", "Gate", "Guardrails", "Backends"]


def test_the_page_of_clients_shows_usage_refusals_and_budgets_by_team():
    (page,) = [page for page in dashboards(SCOPE) if page.name == "clients"]
    by_team = {
        metric
        for panel in page.panels
        for query in panel.queries
        if "team" in query.expr and "team" in query.legend
        for metric in metrics_of(query.expr)
    }
    assert by_team == {
        "callout_requests_total",
        "callout_tokens_total",
        "callout_usd_total",
        "callout_refusals_total",
        "callout_budget_spent_ratio",
    }


def test_a_platform_with_clients_has_their_dashboard_too(recorder):
    made = build(recorder, clients=True).all(DASHBOARD)
    assert len(made) == 5
    assert "dashboards-clients" in {seen.name for seen in made}


def test_every_panel_says_what_it_shows_and_in_which_unit():
    for panel in panels():
        assert panel.description.endswith("."), panel.title
        assert panel.unit in UNITS.values()
        assert panel.queries[0].is_limit is False, f"{panel.title}: a limit alone shows nothing"


def test_no_two_panels_of_a_page_have_one_title():
    for page in dashboards(SCOPE):
        titles = [panel.title for panel in page.panels]
        assert sorted(set(titles)) == sorted(titles)


def test_the_slo_is_drawn_for_each_model_that_has_one():
    panel = next(p for p in panels() if p.title == "Time to first token, p95")
    assert panel.queries[1].expr == 'label_replace(vector(0.5), "job", "llama", "", "")'
    assert panel.queries[1].is_limit


def test_the_cost_is_the_price_of_each_replica_over_the_tokens():
    cost = fill("$cost_per_million", SCOPE, "5m")
    assert 'label_replace(vector(10.8), "top_level_controller_name", "llama-tpu", "", "")' in cost
    assert "* 0.0036 > 0)" in cost  # 3600 s an hour over a million tokens


def test_models_without_a_picker_are_not_looked_for_among_pickers():
    assert fill("$pickers", SCOPE, "5m") == 'namespace="models",job=~"(llama)-picker"'


def test_an_internal_gateway_is_another_load_balancer():
    inside = Scope(SCOPE.models, "models", exposure="internal")
    assert fill("$lb_requests", inside, "5m") == (
        "loadbalancing_googleapis_com:https_internal_request_count"
    )


def test_clients_of_a_global_load_balancer_are_counted_by_its_own_series():
    fronted = Scope(SCOPE.models, "models", has_front=True)
    assert fill("$lb_requests $lb_server_errors $lb_latencies", fronted, "5m") == (
        "loadbalancing_googleapis_com:https_request_count"
        ' loadbalancing_googleapis_com:https_request_count{response_code_class="500"}'
        " loadbalancing_googleapis_com:https_total_latencies_bucket"
    )


def test_a_word_that_is_not_known_is_an_error():
    with pytest.raises(KeyError, match="engine"):
        fill("up{$engine}", SCOPE, "5m")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"unit": "furlongs"}, r"Answered requests: unit must be one of .*got 'furlongs'"),
        ({"tile": {"title": "T", "reduce": "avg"}}, r"tile.reduce must be max or sum, got 'avg'"),
        ({"only": "managed"}, r"keys must be of .*got \['only'\]"),
    ],
)
def test_what_no_renderer_knows_is_refused(monkeypatch, change, message):
    page = json.loads(json.dumps(dashboard_source.sources()[0]))
    page["rows"][0]["panels"][0] |= change
    monkeypatch.setattr(dashboard_source, "sources", lambda: (page,))
    with pytest.raises(ValueError, match=message):
        dashboards(SCOPE)


def test_cloud_monitoring_gets_units_in_its_own_notation(recorder):
    units = {
        tile["widget"]["title"]: data["timeSeriesQuery"]["unitOverride"]
        for seen in build(recorder).all(DASHBOARD)
        for tile in json.loads(seen.inputs["dashboardJson"])["mosaicLayout"]["tiles"]
        for data in tile["widget"].get("xyChart", {}).get("dataSets", [])
    }
    assert units["KV cache in use"] == "10^2.%"
    assert units["Accelerator duty cycle"] == "%"
    assert units["Load balancer to last byte, p95"] == "ms"
    assert units["Decision time"] == "s"
    assert units["Tokens"] == units["Answered requests"] == "1/s"
    assert units["Cost per hour"] == units["Current cost per million tokens"] == "{USD}"
    assert units["Requests waiting"] == units["Ready replicas"] == "1"


def test_every_word_is_used_and_every_used_one_is_known():
    text = "".join(
        file.read_text()
        for file in FOLDER.parents[2].glob("components/gke_inference/*/data/**/*.yaml")
    )
    used = set(re.findall(r"\$\{?(\w+)", text)) - {"1"}
    assert promql.words() - set(engine_names()) <= used - {"words"} <= promql.words()


def test_the_dashboard_of_images_keeps_its_place_in_the_state(recorder):
    recorder.run(
        lambda: Dashboards("dashboards", args(models=[{**model(), "engine": "diffusion"}])).names
    )
    renamed = recorder.requests[DASHBOARD, "dashboards-images"]
    assert [alias.spec.name for alias in renamed.aliases] == ["dashboards-pictures"]
    assert not recorder.requests[DASHBOARD, "dashboards-overview"].aliases


def test_a_platform_has_four_dashboards(recorder):
    made = build(recorder).all(DASHBOARD)
    assert {seen.name for seen in made} == {
        "dashboards-overview",
        "dashboards-engines",
        "dashboards-gateway",
        "dashboards-capacity",
    }
    assert len(made) == 4
    assert {seen.inputs["project"] for seen in made} == {"acme-prod"}


def test_charts_lie_in_the_grid_and_on_no_other_chart(recorder):
    for seen in build(recorder).all(DASHBOARD):
        layout = json.loads(seen.inputs["dashboardJson"])["mosaicLayout"]
        taken = set()
        for tile in layout["tiles"]:
            cells = {
                (x, y)
                for x in range(tile.get("xPos", 0), tile.get("xPos", 0) + tile["width"])
                for y in range(tile.get("yPos", 0), tile.get("yPos", 0) + tile["height"])
            }
            assert not cells & taken, tile["widget"]["title"]
            assert max(x for x, _ in cells) < layout["columns"]
            taken |= cells


# The part of the API's `Dashboard` that is written here: field, then what may be in it.
# cloud.google.com/monitoring/api/ref_v3/rest/v1/projects.dashboards
API = {
    "Dashboard": {"displayName", "labels", "mosaicLayout"},
    "MosaicLayout": {"columns", "tiles"},
    "Tile": {"height", "widget", "width", "xPos", "yPos"},
    "Widget": {"sectionHeader", "title", "xyChart"},
    "XyChart": {"chartOptions", "dataSets", "yAxis"},
    "DataSet": {"plotType", "targetAxis", "timeSeriesQuery"},
    "TimeSeriesQuery": {"prometheusQuery", "unitOverride"},
}


def test_only_fields_of_the_api_are_written(recorder):
    for seen in build(recorder).all(DASHBOARD):
        page = json.loads(seen.inputs["dashboardJson"])
        assert set(page) == API["Dashboard"]
        assert set(page["mosaicLayout"]) == API["MosaicLayout"]
        for tile in page["mosaicLayout"]["tiles"]:
            assert set(tile) <= API["Tile"]
            assert set(tile["widget"]) < API["Widget"]
            chart = tile["widget"].get("xyChart")
            if chart is None:
                continue
            assert set(chart) == API["XyChart"]
            for data in chart["dataSets"]:
                assert set(data) == API["DataSet"]
                assert set(data["timeSeriesQuery"]) == API["TimeSeriesQuery"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"exposure": "open"}, "exposure.*external, internal, got 'open'"),
        ({"models": []}, "models.*must have at least 1 entry, got 0"),
        (
            {"models": [{**model(), "deployments": []}]},
            r"models\[0\].deployments.*must have at least 1 entry, got 0",
        ),
        ({"models": [{**model(), "ttft_p95_ms": 0}]}, r"models\[0\].ttftP95Ms.*got 0"),
        ({"queue_limit": 0}, "queueLimit.*got 0"),
    ],
)
def test_dashboards_that_could_not_be_are_refused(recorder, change, message):
    with pytest.raises(pulumi.InputPropertyError, match=message):
        build(recorder, **change)
