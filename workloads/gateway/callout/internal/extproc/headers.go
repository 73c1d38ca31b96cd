package extproc

import (
	"slices"
	"strings"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"gke-inference/gateway/callout/internal/config"
	"gke-inference/gateway/callout/internal/identity"
	"gke-inference/gateway/internal/calls"
)

// modelHeader is the model that the body router routed by. It comes from the body, so it is kept.
const modelHeader = "x-gateway-model-name"

// Header names of the endpoint picker, from gateway-api-inference-extension v1.5.0 and llm-d-router.
var (
	objectiveHeaders = []string{"x-gateway-inference-objective", "x-llm-d-inference-objective"}
	fairnessHeaders  = []string{"x-gateway-inference-fairness-id", "x-llm-d-inference-fairness-id"}
)

// Headers that only the gateway's own components may send: pickers and engines choose endpoints, ranks
// and priorities by them.
var internalPrefixes = []string{
	"x-gateway-", "x-llm-d-", "x-gki-", "x-prefiller-", "x-encoder-", "x-data-parallel-",
	identity.CertificatePrefix,
}

var internalNames = []string{"target-pod", "test-epp-endpoint-selection"}

// objectivesOfClients are the latencies that a client asks of llm-d-router's picker for its own request.
var objectivesOfClients = []string{"x-llm-d-slo-ttft-ms", "x-llm-d-slo-tpot-ms"}

// acceptEncoding is removed, so that responses are not compressed and their usage can be read.
const acceptEncoding = "accept-encoding"

func isInternal(name string) bool {
	if name == modelHeader || slices.Contains(objectivesOfClients, name) {
		return false
	}
	isPrefixed := slices.ContainsFunc(internalPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	return isPrefixed || slices.Contains(internalNames, name)
}

// upstreamMutation removes headers that clients must not send, and sets those of the verified identity.
func upstreamMutation(headers map[string][]string, c *config.Config, team, objective string) *extproc.HeaderMutation {
	set := map[string]string{}
	for _, name := range fairnessHeaders {
		set[name] = team
	}
	if objective != "" {
		for _, name := range objectiveHeaders {
			set[name] = objective
		}
	}
	credentials := append(c.CredentialHeaders(), acceptEncoding)
	var removed []string
	for name := range headers {
		_, isSet := set[name]
		if !isSet && (isInternal(name) || slices.Contains(credentials, name)) {
			removed = append(removed, name)
		}
	}
	slices.Sort(removed)
	return &extproc.HeaderMutation{SetHeaders: calls.Options(set), RemoveHeaders: removed}
}
