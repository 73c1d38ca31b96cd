package extproc

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"gke-inference/gateway/callout/internal/openai"
	"gke-inference/gateway/internal/calls"
	"gke-inference/gateway/internal/paths"
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
// balancers and failing engines write plain text, and some engines JSON of their own.
func (e *exchange) holdsError() bool {
	return e.kind == prompt && e.status >= http.StatusBadRequest
}

// passError takes the next piece of a held error response. An error in another form than
// OpenAI's gets that form, with the same status and the message that it has. The picker's responses to a saturated model become OpenAI's 429, which
// clients retry after a pause and no load balancer counts as a failure of the region. Every other error
// passes unchanged.
func (e *exchange) passError(piece []byte, isEnd bool) ([]byte, *openai.Error) {
	held := e.failed
	held.body = append(held.body, piece...)
	if !isEnd && len(held.body) <= maxErrorBytes {
		return nil, nil
	}
	e.failed = nil
	if fault := e.translated(held.body, isEnd); fault != nil {
		return nil, fault
	}
	if err := e.stream.Send(calls.ResponseHeaders(held.headers)); err != nil {
		return nil, openai.Unavailable("The response could not be sent.")
	}
	return held.body, nil
}

// translated returns an error response in OpenAI's form, or nil if it has that form and is not the picker's.
// body is only its beginning unless isWhole.
func (e *exchange) translated(body []byte, isWhole bool) *openai.Error {
	text, isJSON, isOpenAIs := string(body), bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")), true
	if isJSON && isWhole {
		isJSON = json.Valid(body)
		text, isOpenAIs = messageOf(body) // a gateway may put the picker's text into its own form
	}
	_, pickers, isPickers := strings.Cut(text, pickersText)
	pickers = pickersText + strings.TrimSpace(pickers)
	switch {
	case !isPickers && isJSON && !isWhole && paths.IsMessages(e.path):
		return openai.Failed(e.status) // its message cannot be read, and its form is not Anthropic's
	case !isPickers && isJSON && isOpenAIs && !(paths.IsMessages(e.path) && text != ""):
		return nil
	case strings.HasPrefix(pickers, fullText), strings.HasPrefix(pickers, waitedText):
		return openai.Overloaded()
	case isPickers && strings.HasPrefix(pickers, unreadableText) && e.form != nil: // models that read forms have no picker
		return openai.NotServed(e.path)
	case isPickers && strings.HasPrefix(pickers, unreadableText):
		return openai.InvalidBody(strings.TrimPrefix(pickers, unreadableText))
	case !isPickers && isJSON && text != "":
		return openai.Rejected(e.status, text)
	case !isPickers && isJSON && e.status == http.StatusNotFound:
		return openai.NotServed(e.path)
	default:
		return openai.Failed(e.status)
	}
}

// messageOf returns the text of an error in JSON, and whether it has OpenAI's form. SGLang has the message
// beside `"object": "error"`, TGI has it as `error`, and FastAPI has `detail` alone, for a path that an engine does
// not have or a field that it refuses.
func messageOf(body []byte) (text string, isOpenAIs bool) {
	var given struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	_ = json.Unmarshal(body, &given) // what is not of the type stays empty
	var inner struct {
		Message string `json:"message"`
	}
	if bytes.HasPrefix(given.Error, []byte("{")) {
		_ = json.Unmarshal(given.Error, &inner)
		return inner.Message, true
	}
	if json.Unmarshal(given.Error, &text) != nil || text == "" {
		text = given.Message
	}
	return text, false
}
