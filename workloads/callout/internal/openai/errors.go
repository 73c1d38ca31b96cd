package openai

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Error is a response in OpenAI's error format, which every OpenAI client understands.
type Error struct {
	Status  int
	Type    string
	Code    string
	Param   string
	Message string
	Headers map[string]string
}

// Error returns the code and the message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Body returns the JSON body.
func (e *Error) Body() []byte {
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

func (e *Error) with(name, value string) *Error {
	if e.Headers == nil {
		e.Headers = map[string]string{}
	}
	e.Headers[name] = value
	return e
}

// final tells the official clients not to retry: the same request fails until somebody changes
// something.
func (e *Error) final() *Error { return e.with("x-should-retry", "false") }

func invalid(status int, code, param, format string, args ...any) *Error {
	return &Error{
		Status: status, Type: "invalid_request_error", Code: code, Param: param,
		Message: fmt.Sprintf(format, args...),
	}
}

// Unauthorized refuses a request without a valid credential. It does not reveal the exact reason.
func Unauthorized() *Error {
	return invalid(401, "invalid_api_key", "", "Incorrect API key or token provided, or none.").
		with("www-authenticate", "Bearer")
}

// UnknownTeam refuses a valid credential of a team that the platform does not know.
func UnknownTeam() *Error {
	return invalid(403, "unknown_team", "", "The team of this credential is not set up on this platform.")
}

// TooManyGuesses refuses an address that sent too many invalid credentials.
func TooManyGuesses(retry time.Duration) *Error {
	return limited("requests", "Too many invalid credentials from this address.", retry)
}

// Unavailable refuses a request that cannot be checked now.
func Unavailable(message string) *Error {
	e := &Error{Status: 503, Type: "server_error", Code: "service_unavailable", Message: message}
	return e.with("retry-after", "2")
}

// ModelNotFound refuses a model that does not exist for the caller.
func ModelNotFound(model string) *Error {
	return invalid(404, "model_not_found", "model",
		"The model `%s` does not exist or you do not have access to it.", clipped(model))
}

// ModelMismatch refuses a request whose routing header names a different model than its body.
func ModelMismatch() *Error {
	return invalid(400, "model_mismatch", "model", "`model` must be the model that the request was routed to.")
}

// UnknownURL refuses a path that no model serves.
func UnknownURL(method, path string) *Error {
	return invalid(404, "unknown_url", "", "Unknown request URL: %s %s.", clipped(method), clipped(path))
}

// MethodNotAllowed refuses an unsupported method of a path.
func MethodNotAllowed(method string) *Error {
	return invalid(405, "method_not_allowed", "", "The method %s is not allowed on this path.", clipped(method))
}

// WrongContentType refuses a body that is not plain JSON.
func WrongContentType(field, want, got string) *Error {
	return invalid(415, "unsupported_media_type", "", "%s must be %s, got %q.", field, want, clipped(got))
}

// contentFilter is OpenAI's finish reason for filtered content.
const contentFilter = "content_filter"

// ContentFiltered refuses a prompt that a guardrail blocks; reason is the reason that the guardrail
// gives.
func ContentFiltered(reason string) *Error {
	message := "The prompt was blocked by a guardrail of this platform."
	if reason != "" {
		message += " " + clipped(reason)
	}
	return invalid(400, contentFilter, "", "%s", message).final()
}

// TooLarge refuses a body over the limit.
func TooLarge(limit int) *Error {
	return invalid(413, "request_too_large", "", "The body must have at most %d bytes.", limit).final()
}

// TokensTooLarge refuses a request that is larger than the limit of tokens per minute.
func TokensTooLarge(tokens, limit int64) *Error {
	e := limited("tokens", fmt.Sprintf(
		"Request too large: about %d tokens, and the limit is %d tokens per minute.", tokens, limit), time.Minute)
	return e.final()
}

// longestRetry is the longest `retry-after` that the official clients respect. With a longer one, they
// retry within seconds.
const longestRetry = time.Minute

// RateLimited refuses a request over a limit per minute; kind is "requests" or "tokens".
func RateLimited(kind string, limit int64, retry time.Duration) *Error {
	message := fmt.Sprintf("Rate limit reached: %d %s per minute.", limit, kind)
	return limited(kind, message, min(retry, longestRetry))
}

// QuotaExceeded refuses a request of a team that has used its monthly budget.
func QuotaExceeded(kind string, retry time.Duration) *Error {
	e := limited("insufficient_quota", fmt.Sprintf(
		"The team has used its %s for this month; the next month starts on the 1st at 00:00 UTC.", kind), retry)
	e.Code = "insufficient_quota"
	return e.final()
}

func limited(kind, message string, retry time.Duration) *Error {
	e := &Error{Status: 429, Type: kind, Code: "rate_limit_exceeded", Message: message}
	seconds := max(1, int(math.Ceil(retry.Seconds())))
	return e.with("retry-after", strconv.Itoa(seconds))
}

// clipped limits the length of client text in a response.
func clipped(text string) string {
	const limit = 200
	if len(text) <= limit {
		return text
	}
	return text[:limit] + "…"
}
