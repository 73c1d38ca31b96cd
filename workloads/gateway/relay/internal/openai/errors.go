// Package openai reads requests and responses of the OpenAI API, and writes its errors.
package openai

import (
	"net/http"

	"gke-inference/gateway/internal/apierror"
)

// Error is a response in OpenAI's error format.
type Error = apierror.Error

// Invalid refuses a request that the client must change.
func Invalid(status int, code, param, message string) *Error {
	return apierror.Invalid(status, code, param, "%s", message)
}

// Failed reports a failure of a backend, not of the client.
func Failed(status int, code, message string) *Error {
	return apierror.Failed(status, code, message)
}

// Overloaded refuses a request that can be retried soon.
func Overloaded(status int, code, message, retryAfter string) *Error {
	kind := "server_error"
	if status == http.StatusTooManyRequests {
		kind = "rate_limit_error"
	}
	if retryAfter == "" {
		retryAfter = "1"
	}
	made := &Error{Status: status, Type: kind, Code: code, Message: message}
	return made.With("retry-after", retryAfter)
}
