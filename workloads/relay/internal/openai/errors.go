// Package openai reads requests and responses of the OpenAI API, and writes its errors.
package openai

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// Error is a response in OpenAI's error format, which every OpenAI client understands.
type Error struct {
	Status     int
	Type       string
	Code       string
	Param      string
	Message    string
	RetryAfter string
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

// Write sends the error.
func (e *Error) Write(w http.ResponseWriter) {
	body := e.Body()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if e.RetryAfter != "" {
		w.Header().Set("Retry-After", e.RetryAfter)
	}
	w.WriteHeader(e.Status)
	w.Write(body) // a client that disconnected reads no error
}

// Invalid refuses a request that the client must change.
func Invalid(status int, code, param, message string) *Error {
	return &Error{Status: status, Type: "invalid_request_error", Code: code, Param: param, Message: message}
}

// Failed reports a failure of a backend, not of the client.
func Failed(status int, code, message string) *Error {
	return &Error{Status: status, Type: "server_error", Code: code, Message: message}
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
	return &Error{Status: status, Type: kind, Code: code, Message: message, RetryAfter: retryAfter}
}
