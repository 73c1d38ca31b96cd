package relay

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"gke-inference/gateway/relay/internal/openai"
)

const (
	largestError   = 64 << 10
	longestMessage = 1000
)

// mapError converts a target's error to the OpenAI format. Problems of the request are reported to the
// client in the provider's words; problems between the platform and the provider are not.
func mapError(answer *http.Response) *openai.Error {
	retry := answer.Header.Get("Retry-After")
	switch status := answer.StatusCode; status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		if isAboutKey(answer) {
			break
		}
		return openai.Invalid(status, "backend_refused", "", messageOf(answer))
	case http.StatusUnauthorized, http.StatusForbidden:
	case http.StatusNotFound:
		return openai.Failed(http.StatusBadGateway, "backend_model_not_found", "The backend does not know this model.")
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return timedOut()
	case http.StatusTooManyRequests:
		return openai.Overloaded(status, "rate_limit_exceeded", "The model's backend has no capacity for more requests.", retry)
	case http.StatusServiceUnavailable, overloaded:
		return openai.Overloaded(http.StatusServiceUnavailable, "backend_overloaded",
			"The model's backend is overloaded.", retry)
	default:
		return openai.Failed(http.StatusBadGateway, "backend_failed", "The model's backend failed.")
	}
	return openai.Failed(http.StatusBadGateway, "backend_credentials",
		"The model's backend does not accept the platform's credential.")
}

// isAboutKey reports whether a 400 comes from Gemini, which refuses an unknown API key with this
// status.
func isAboutKey(answer *http.Response) bool {
	body, err := io.ReadAll(io.LimitReader(answer.Body, largestError))
	answer.Body = io.NopCloser(strings.NewReader(string(body)))
	text := strings.ToLower(string(body))
	return err == nil && (strings.Contains(text, "api_key_invalid") || strings.Contains(text, "api key not valid"))
}

// messageOf reads the message of an error: an object as from OpenAI and Anthropic, or Google's format,
// also in a list.
func messageOf(answer *http.Response) string {
	const unknown = "The model's backend refused the request."
	body, err := io.ReadAll(io.LimitReader(answer.Body, largestError))
	if err != nil {
		return unknown
	}
	type shape struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	var one shape
	if json.Unmarshal(body, &one) != nil {
		var several []shape
		if json.Unmarshal(body, &several) != nil || len(several) == 0 {
			return unknown
		}
		one = several[0]
	}
	message := strings.Join(strings.Fields(one.Error.Message), " ")
	if message == "" || !utf8.ValidString(message) {
		return unknown
	}
	if len(message) > longestMessage {
		message = strings.ToValidUTF8(message[:longestMessage], "")
	}
	return message
}
