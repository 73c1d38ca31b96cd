package plugins

import (
	"context"
	"encoding/json"
	"net"

	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/plugins"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/requestcontrol"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/types"
)

const (
	// HeaderHandlerType tells the decode replica's sidecar which replica computes the prompt.
	HeaderHandlerType = "prefill-header-handler"
	// PrefillHeader contains the address and port of that replica.
	PrefillHeader = "x-prefiller-host-port"
)

var _ requestcontrol.PreRequest = &headerHandler{}

type headerHandler struct {
	name           plugins.TypedName
	PrefillProfile string `json:"prefillProfile"`
}

// HeaderHandlerFactory creates the handler. The parameter prefillProfile defaults to "prefill".
func HeaderHandlerFactory(name string, raw json.RawMessage, _ plugins.Handle) (plugins.Plugin, error) {
	handler := &headerHandler{plugins.TypedName{Type: HeaderHandlerType, Name: name}, "prefill"}
	if err := decode(HeaderHandlerType, raw, handler); err != nil {
		return nil, err
	}
	return handler, nil
}

// TypedName returns the type and the name of the plugin.
func (h *headerHandler) TypedName() plugins.TypedName { return h.name }

// PreRequest sets the header to the chosen replica, and clears a header from the client.
func (h *headerHandler) PreRequest(
	_ context.Context, request *types.LLMRequest, result *types.SchedulingResult,
) {
	if _, given := request.Headers[PrefillHeader]; given {
		request.Headers[PrefillHeader] = "" // otherwise, the sidecar would call any address
	}
	prefill := result.ProfileResults[h.PrefillProfile]
	if prefill == nil || len(prefill.TargetPods) == 0 {
		return
	}
	pod := prefill.TargetPods[0].GetPod()
	request.Headers[PrefillHeader] = net.JoinHostPort(pod.Address, pod.Port)
}
