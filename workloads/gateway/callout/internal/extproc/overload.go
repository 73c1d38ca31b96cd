package extproc

import (
	"bytes"
	"net/http"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"gke-inference/gateway/callout/internal/openai"
	"gke-inference/gateway/internal/calls"
)

// maxErrorBytes limits an error response that is held until it is complete.
const maxErrorBytes = 8 << 10

// Texts of the picker's responses to requests for which no replica has room: gateway-api-inference-extension
// v1.5.0, pkg/common/error/error.go (format, and 429 of a full queue or a shed request) and
// pkg/epp/requestcontrol/admission.go (503 of a request that waited too long).
var overloadTexts = [][]byte{
	[]byte("inference error: ResourceExhausted - "),
	[]byte("inference error: ServiceUnavailable - request timed out in queue: "),
}

// heldError is an error response whose headers wait until its body shows where it is from.
type heldError struct {
	headers *extproc.HeaderMutation
	body    []byte
}

// mayBeOverload reports whether a response can be the picker's to a saturated model.
func (e *exchange) mayBeOverload() bool {
	return e.kind == prompt && (e.status == http.StatusTooManyRequests || e.status == http.StatusServiceUnavailable)
}

// passError takes the next piece of a held error response. The picker's responses to a saturated model
// become OpenAI's 429, which clients retry after a pause and no load balancer counts as a failure of the
// region; every other error passes unchanged.
func (e *exchange) passError(piece []byte, isEnd bool) ([]byte, *openai.Error) {
	held := e.failed
	held.body = append(held.body, piece...)
	if !isEnd && len(held.body) <= maxErrorBytes {
		return nil, nil
	}
	e.failed = nil
	for _, text := range overloadTexts {
		if bytes.Contains(held.body, text) {
			return nil, openai.Overloaded()
		}
	}
	if err := e.stream.Send(calls.ResponseHeaders(held.headers)); err != nil {
		return nil, openai.Unavailable("The response could not be sent.")
	}
	return held.body, nil
}
