package openai

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"gke-inference/gateway/internal/apierror"
	"gke-inference/gateway/internal/forms"
	"gke-inference/gateway/internal/tokens"
)

// Error is a response in OpenAI's error format.
type Error = apierror.Error

// UnknownTeam refuses a valid credential of a team that the platform does not know.
func UnknownTeam() *Error {
	return apierror.Invalid(403, "unknown_team", "", "The team of this credential is not set up on this platform.")
}

// NotActing refuses a request that names another team without the permission to act for it.
func NotActing() *Error {
	return apierror.Invalid(403, "team_not_permitted", "", "This credential may not act for another team.")
}

// TooManyGuesses refuses an address that sent too many invalid credentials.
func TooManyGuesses(retry time.Duration) *Error {
	return limited("requests", "Too many invalid credentials from this address.", retry)
}

// Unavailable refuses a request that cannot be checked now.
func Unavailable(message string) *Error {
	return apierror.Failed(503, "service_unavailable", message).With("retry-after", "2")
}

// InvalidBody refuses a body that the picker does not accept, for the reason that it gives.
func InvalidBody(reason string) *Error {
	return apierror.Invalid(400, "invalid_body", "", "%s.", apierror.Clipped(reason))
}

// Failed replaces an error response in another form; status is its status.
func Failed(status int) *Error {
	if status < http.StatusInternalServerError {
		return apierror.Invalid(status, "invalid_request", "", "The model rejected the request with status %d.", status)
	}
	return apierror.Failed(status, "server_error", fmt.Sprintf("The model could not answer: status %d.", status))
}

// Rejected is an engine's own error with its message.
func Rejected(status int, message string) *Error {
	if status < http.StatusInternalServerError {
		return apierror.Invalid(status, "invalid_request", "", "%s", message)
	}
	return apierror.Failed(status, "server_error", message)
}

// NotServed refuses a path that the model's engine does not have, such as embeddings of a chat model.
func NotServed(path string) *Error {
	return apierror.Invalid(404, "unknown_url", "", "The model does not serve POST %s.", path)
}

// ModelNotFound refuses a model that does not exist for the caller.
func ModelNotFound(model string) *Error {
	return apierror.Invalid(404, "model_not_found", "model",
		"The model `%s` does not exist or you do not have access to it.", apierror.Clipped(model))
}

// ModelMismatch refuses a request whose routing header names a different model than its body.
func ModelMismatch() *Error {
	return apierror.Invalid(400, "model_mismatch", "model", "`model` must be the model that the request was routed to.")
}

// UnknownURL refuses a path that no model serves.
func UnknownURL(method, path string) *Error {
	return apierror.Invalid(404, "unknown_url", "", "Unknown request URL: %s %s.", apierror.Clipped(method), apierror.Clipped(path))
}

// NotStored refuses to find a response of the Responses API, of which the platform stores none.
func NotStored() *Error {
	return apierror.Invalid(404, "response_not_stored", "", "The response is not stored: the gateway keeps no responses.")
}

// MethodNotAllowed refuses an unsupported method of a path.
func MethodNotAllowed(method string) *Error {
	return apierror.Invalid(405, "method_not_allowed", "", "The method %s is not allowed on this path.", apierror.Clipped(method))
}

// WrongContentType refuses a body that is not plain JSON.
func WrongContentType(field, want, got string) *Error {
	return apierror.Invalid(415, "unsupported_media_type", "", "%s must be %s, got %q.", field, want, apierror.Clipped(got))
}

// InvalidForm refuses a form that is not of the grammar, or has other files than images.
func InvalidForm(fault *forms.Fault) *Error {
	return apierror.Invalid(400, "invalid_form", fault.Field, "%s", fault.Error())
}

// contentFilter is OpenAI's finish reason for filtered content.
const contentFilter = "content_filter"

// ContentFiltered refuses a prompt that a guardrail blocks; reason is the reason that the guardrail
// gives.
func ContentFiltered(reason string) *Error {
	message := "The prompt was blocked by a guardrail of this platform."
	if reason != "" {
		message += " " + apierror.Clipped(reason)
	}
	return apierror.Invalid(400, contentFilter, "", "%s", message).Final()
}

// NotChecked refuses a field that a guardrail cannot check.
func NotChecked(field, reason string) *Error {
	if field == "" {
		return apierror.Invalid(400, "invalid_json", "", "%s", reason)
	}
	name := apierror.Clipped(field)
	return apierror.Invalid(400, "unsupported_parameter", name, "`%s` %s", name, reason)
}

// TokensTooLarge refuses a request that can use more tokens than the limit per minute.
func TokensTooLarge(size tokens.Size, limit int64) *Error {
	message := fmt.Sprintf("Request too large: it can use %d tokens, and the limit is %d tokens per minute.", size.Most, limit)
	if !size.IsLimited && size.MostAnswer > 0 {
		message += " Its answer has no limit: set `max_tokens`, or `max_output_tokens` on /v1/responses."
	}
	return limited("tokens", message, time.Minute).Final()
}

// longestRetry is the longest `retry-after` that the official clients respect. With a longer one, they
// retry within seconds.
const longestRetry = time.Minute

// RateLimited refuses a request over a limit per minute; kind is "requests" or "tokens".
func RateLimited(kind string, limit int64, retry time.Duration) *Error {
	message := fmt.Sprintf("Rate limit reached: %d %s per minute.", limit, kind)
	return limited(kind, message, min(retry, longestRetry))
}

// overloadPause is how long clients wait before they retry a request for which no replica had room.
const overloadPause = time.Second

// Overloaded refuses a request for which no replica of the model had room.
func Overloaded() *Error {
	e := limited("requests", "No replica of the model had room for this request. Retry it later.", overloadPause)
	e.Code = "model_overloaded"
	return e
}

// QuotaExceeded refuses a request of a team that has used its monthly budget.
func QuotaExceeded(kind string, retry time.Duration) *Error {
	e := limited("insufficient_quota", fmt.Sprintf(
		"The team has used its %s for this month; the next month starts on the 1st at 00:00 UTC.", kind), retry)
	e.Code = "insufficient_quota"
	return e.Final()
}

// BudgetHeld refuses a request for a moment: those in flight have reserved what is left of the budget.
func BudgetHeld(retry time.Duration) *Error {
	return limited("budget", "Requests in flight have reserved the rest of the team's budget for this month.", retry)
}

// NotReplaced refuses a request of a team whose budget is spent for a moment: it was routed before that was known.
func NotReplaced(model string, retry time.Duration) *Error {
	return limited("budget", fmt.Sprintf(
		"The team's budget for this month is spent. Retry the request, and `%s` will answer it.", model), retry)
}

func limited(kind, message string, retry time.Duration) *Error {
	e := &Error{Status: 429, Type: kind, Code: "rate_limit_exceeded", Message: message}
	seconds := max(1, int(math.Ceil(retry.Seconds())))
	return e.With("retry-after", strconv.Itoa(seconds))
}
