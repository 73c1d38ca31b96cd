// Package plugins adds prefill/decode disaggregation to the upstream endpoint picker.
//
// The interface is llm-d's (llm-d-inference-scheduler v0.4.0, based on the same upstream release):
// plugin types and parameters of the EndpointPickerConfig, the pod label llm-d.ai/role, the request
// header x-prefiller-host-port and the counter of decisions. The code is this project's own.
package plugins

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/plugins"
)

// decisions counts the decision for each request, with llm-d's name and label.
var decisions = prometheus.NewCounterVec(
	prometheus.CounterOpts{
		Name: "llm_d_inference_scheduler_pd_decision_total",
		Help: "[ALPHA] Total number of P/D disaggregation decisions made",
	},
	[]string{"decision_type"},
)

const (
	decodeOnly    = "decode-only"
	prefillDecode = "prefill-decode"
)

// Register adds the plugin types to the configuration loader.
func Register() {
	plugins.Register(ByLabelType, ByLabelFactory)
	plugins.Register(DecodeFilterType, DecodeFilterFactory)
	plugins.Register(PrefillFilterType, PrefillFilterFactory)
	plugins.Register(ProfileHandlerType, ProfileHandlerFactory)
	plugins.Register(HeaderHandlerType, HeaderHandlerFactory)
}

// Collectors returns the metrics that the picker serves in addition to upstream's.
func Collectors() []prometheus.Collector {
	return []prometheus.Collector{decisions}
}
