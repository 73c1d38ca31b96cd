// Package apierror creates errors in the format of the API that a client called: OpenAI's, Anthropic's, or that of
// the Open Inference Protocol.
package apierror

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"

	"gke-inference/gateway/internal/paths"
)

// Error is a response to a request that failed; in OpenAI's format if no other is set.
type Error struct {
	Status  int
	Type    string
	Code    string
	Param   string
	Message string
	// IsPlain is whether the body has the message alone, as the Open Inference Protocol has it.
	IsPlain bool
	// IsGRPC is whether the response is that of a gRPC call: a status with the message.
	IsGRPC bool
	// IsAnthropics is whether the body has the form of Anthropic's API, which has no code.
	IsAnthropics bool
	// Headers are further headers of the response, by lowercase name.
	Headers map[string]string
}

// Error returns the code and the message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// On returns the error in the format of the API that a path belongs to.
func (e *Error) On(path string) *Error {
	made := *e
	made.IsPlain, made.IsGRPC = paths.IsInference(path), paths.IsCall(path)
	made.IsAnthropics = paths.IsMessages(path)
	return &made
}

// anthropicTypes are the types of Anthropic's errors by status (platform.claude.com/docs/en/api/errors).
var anthropicTypes = map[int]string{
	http.StatusUnauthorized: "authentication_error", http.StatusForbidden: "permission_error",
	http.StatusNotFound: "not_found_error", http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests: "rate_limit_error", http.StatusGatewayTimeout: "timeout_error",
	http.StatusServiceUnavailable: "overloaded_error",
}

func (e *Error) anthropicType() string {
	kind, isKnown := anthropicTypes[e.Status]
	switch {
	case isKnown:
		return kind
	case e.Status < http.StatusInternalServerError:
		return "invalid_request_error"
	default:
		return "api_error"
	}
}

// Body returns the JSON body.
func (e *Error) Body() []byte {
	if e.IsGRPC {
		return []byte(e.Message)
	}
	if e.IsPlain {
		if body, err := json.Marshal(map[string]string{"error": e.Message}); err == nil {
			return body
		}
	}
	if e.IsAnthropics {
		inner := map[string]string{"type": e.anthropicType(), "message": e.Message}
		if body, err := json.Marshal(map[string]any{"type": "error", "error": inner}); err == nil {
			return body
		}
	}
	var param *string
	if e.Param != "" {
		param = &e.Param
	}
	body, err := json.Marshal(map[string]any{"error": map[string]any{
		"message": e.Message, "type": e.Type, "param": param, "code": e.Code,
	}})
	if err != nil { // strings can always be encoded
		return []byte(`{"error":{"message":"internal error","type":"server_error","param":null,"code":null}}`)
	}
	return body
}

// GRPCStatus returns the status of a gRPC call that fails with the error (googleapis google/rpc/code.proto, "HTTP
// Mapping"; the code of a message over the limit is that of gRPC's own libraries).
func (e *Error) GRPCStatus() codes.Code {
	switch e.Status {
	case http.StatusBadRequest:
		return codes.InvalidArgument
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusNotFound:
		if e.Param == "" { // the call, not the model
			return codes.Unimplemented
		}
		return codes.NotFound
	case http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType:
		return codes.Unimplemented
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case http.StatusRequestTimeout:
		return codes.DeadlineExceeded
	case http.StatusServiceUnavailable:
		return codes.Unavailable
	default:
		return codes.Internal
	}
}

// Write sends the error.
func (e *Error) Write(w http.ResponseWriter) {
	body := e.Body()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	for name, value := range e.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(e.Status)
	w.Write(body) // a client that disconnected reads no error
}

// With adds a header to the response.
func (e *Error) With(name, value string) *Error {
	if e.Headers == nil {
		e.Headers = map[string]string{}
	}
	e.Headers[name] = value
	return e
}

// Final tells the official clients not to retry: the same request fails until somebody changes
// something.
func (e *Error) Final() *Error { return e.With("x-should-retry", "false") }

// Unauthorized refuses a request without a valid credential. It does not reveal the exact reason.
func Unauthorized() *Error {
	return Invalid(http.StatusUnauthorized, "invalid_api_key", "", "Incorrect API key or token provided, or none.").
		With("www-authenticate", "Bearer")
}

// Invalid refuses a request that the client must change.
func Invalid(status int, code, param, format string, args ...any) *Error {
	return &Error{
		Status: status, Type: "invalid_request_error", Code: code, Param: param,
		Message: fmt.Sprintf(format, args...),
	}
}

// Failed reports a failure that is not the client's.
func Failed(status int, code, message string) *Error {
	return &Error{Status: status, Type: "server_error", Code: code, Message: message}
}

// TooLarge refuses a body over the limit.
func TooLarge(limit int) *Error {
	return Invalid(http.StatusRequestEntityTooLarge, "request_too_large", "",
		"The body must have at most %d bytes.", limit).Final()
}

// Clipped limits the length of client text in a response.
func Clipped(text string) string {
	const limit = 200
	if len(text) <= limit {
		return text
	}
	return text[:limit] + "…"
}
