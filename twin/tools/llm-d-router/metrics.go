package main

import (
	"sort"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// prefixes are those of metrics that llm-d-router still emits under their old names beside the new
// one (docs/metrics.md, Deprecated series).
var prefixes = []string{"inference_extension_", "inference_objective_", "inference_pool_"}

// renamed has the metrics whose last part differs too.
var renamed = map[string]string{
	"input_tokens": "request_input_tokens",
	"normalized_time_per_output_token_seconds": "request_ntpot_seconds",
	"output_tokens":        "request_output_tokens",
	"per_pod_queue_size":   "per_endpoint_queue_size",
	"prompt_cached_tokens": "request_cached_tokens",
	"ready_pods":           "ready_endpoints",
	"request_sizes":        "request_size_bytes",
	"response_sizes":       "response_size_bytes",
	"running_requests":     "request_running",
}

// renaming gathers each metric under both names.
type renaming struct{ metrics.RegistererGatherer }

func (r renaming) Gather() ([]*dto.MetricFamily, error) {
	families, err := r.RegistererGatherer.Gather()
	for _, family := range families[:len(families):len(families)] {
		if name := newName(family.GetName()); name != "" {
			families = append(families, under(name, family))
		}
	}
	sort.Slice(families, func(i, j int) bool { return families[i].GetName() < families[j].GetName() })
	return families, err
}

func newName(old string) string {
	for _, prefix := range prefixes {
		if rest, found := strings.CutPrefix(old, prefix); found {
			if other, known := renamed[rest]; known {
				rest = other
			}
			return "llm_d_epp_" + rest
		}
	}
	return ""
}

func under(name string, family *dto.MetricFamily) *dto.MetricFamily {
	made := proto.Clone(family).(*dto.MetricFamily)
	made.Name = proto.String(name)
	for _, metric := range made.Metric {
		for _, label := range metric.Label {
			if label.GetName() == "model_server_pod" {
				label.Name = proto.String("model_server_endpoint")
			}
		}
	}
	return made
}
