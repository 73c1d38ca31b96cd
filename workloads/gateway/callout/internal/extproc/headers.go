package extproc

import (
	"slices"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"gke-inference/gateway/callout/internal/config"
	"gke-inference/gateway/callout/internal/identity"
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

// acceptEncoding is removed, so that responses are not compressed and their usage can be read.
const acceptEncoding = "accept-encoding"

// headersOf returns the headers by lowercase name.
func headersOf(message *core.HeaderMap) map[string][]string {
	found := make(map[string][]string, len(message.GetHeaders()))
	for _, header := range message.GetHeaders() {
		value := string(header.GetRawValue())
		if value == "" {
			value = header.GetValue()
		}
		name := strings.ToLower(header.GetKey())
		found[name] = append(found[name], value)
	}
	return found
}

func first(headers map[string][]string, name string) string {
	if values := headers[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

func isInternal(name string) bool {
	if name == modelHeader {
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
	return &extproc.HeaderMutation{SetHeaders: options(set), RemoveHeaders: removed}
}

func options(set map[string]string) []*core.HeaderValueOption {
	made := make([]*core.HeaderValueOption, 0, len(set))
	for name, value := range set {
		made = append(made, &core.HeaderValueOption{
			Header:       &core.HeaderValue{Key: name, RawValue: []byte(value)},
			AppendAction: core.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		})
	}
	slices.SortFunc(made, func(a, b *core.HeaderValueOption) int {
		return strings.Compare(a.GetHeader().GetKey(), b.GetHeader().GetKey())
	})
	return made
}

// clientAddress returns the address of a client, or the /64 network for IPv6. Each load balancer appends
// the address it was called from and its own, so the client's address is second to last behind one, and
// fourth to last behind two (Google Cloud, "External Application Load Balancer overview", X-Forwarded-For
// header). It is assumed that a callout sees the header with all of them.
func clientAddress(headers map[string][]string, hops int) string {
	address, err := identity.Forwarded(headers, hops)
	if err != nil {
		return "unknown"
	}
	if address.Is4() {
		return address.String()
	}
	network, err := address.WithZone("").Prefix(64)
	if err != nil {
		return "unknown"
	}
	return network.String()
}
