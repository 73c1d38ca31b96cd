package extproc

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"gke-inference/gateway/callout/internal/openai"
	"gke-inference/gateway/internal/calls"
)

// maxErrorBytes limits an error response that is held until it is complete.
const maxErrorBytes = 8 << 10

// Texts of the picker's error responses: gateway-api-inference-extension v1.5.0, pkg/common/error/error.go
// (format, and 429 of a full queue or a shed request), pkg/epp/requestcontrol/admission.go (503 of a request
// that waited too long) and pkg/epp/framework/plugins/requesthandling/parsers/openai (400 of a body).
const (
	pickersText    = "inference error: "
	fullText       = pickersText + "ResourceExhausted - "
	waitedText     = pickersText + "ServiceUnavailable - request timed out in queue: "
	unreadableText = pickersText + "BadRequest - "
)

// heldError is an error response whose headers wait until its body shows what it is.
type heldError struct {
	headers *extproc.HeaderMutation
	body    []byte
}

// holdsError reports whether a response is an error that may have another form than OpenAI's: pickers, load
// balancers and failing engines write plain text.
func (e *exchange) holdsError() bool {
	return e.kind == prompt && e.status >= http.StatusBadRequest
}

// passError takes the next piece of a held error response. An error that is no JSON object becomes one of
// OpenAI's, with the same status. The picker's responses to a saturated model become OpenAI's 429, which
// clients retry after a pause and no load balancer counts as a failure of the region. Every other error
// passes unchanged.
func (e *exchange) passError(piece []byte, isEnd bool) ([]byte, *openai.Error) {
	held := e.failed
	held.body = append(held.body, piece...)
	if !isEnd && len(held.body) <= maxErrorBytes {
		return nil, nil
	}
	e.failed = nil
	if fault := translated(e.status, held.body, isEnd); fault != nil {
		return nil, fault
	}
	if err := e.stream.Send(calls.ResponseHeaders(held.headers)); err != nil {
		return nil, openai.Unavailable("The response could not be sent.")
	}
	return held.body, nil
}

// translated returns an error response in OpenAI's form, or nil if it has that form and is not the picker's.
// body is only its beginning unless isWhole.
func translated(status int, body []byte, isWhole bool) *openai.Error {
	var given struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	text, isJSON := string(body), bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{"))
	if isJSON && isWhole {
		isJSON = json.Valid(body)
		if json.Unmarshal(body, &given) == nil { // a gateway may put the picker's text into its own form
			text = given.Error.Message
		}
	}
	_, pickers, isPickers := strings.Cut(text, pickersText)
	pickers = pickersText + strings.TrimSpace(pickers)
	switch {
	case !isPickers && isJSON:
		return nil
	case strings.HasPrefix(pickers, fullText), strings.HasPrefix(pickers, waitedText):
		return openai.Overloaded()
	case isPickers && strings.HasPrefix(pickers, unreadableText):
		return openai.InvalidBody(strings.TrimPrefix(pickers, unreadableText))
	default:
		return openai.Failed(status)
	}
}
