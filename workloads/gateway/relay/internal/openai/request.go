package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

const (
	bytesPerToken  = 4
	unboundedGuess = 512
	mostTokens     = 1 << 24
	mostAnswers    = 1 << 10
)

// Request is the body of a request for tokens.
type Request struct {
	Model  string
	Stream bool
	// AsksUsage is whether the client requested the usage in a stream.
	AsksUsage bool
	// Bytes is the size of the original body.
	Bytes int
	// limit is the maximum number of tokens of one response, if the client sets it.
	limit *int64
	// answers is the number of requested responses.
	answers int64
	fields  map[string]json.RawMessage
}

// ParseRequest reads a body.
func ParseRequest(body []byte) (*Request, *Error) {
	r := &Request{Bytes: len(body)}
	if err := json.Unmarshal(body, &r.fields); err != nil || r.fields == nil {
		return nil, Invalid(http.StatusBadRequest, "invalid_json", "", "The body of the request must be a JSON object.")
	}
	if json.Unmarshal(r.fields["model"], &r.Model) != nil || r.Model == "" {
		return nil, Invalid(http.StatusBadRequest, "invalid_type", "model", "The field model must be a string.")
	}
	if raw, has := r.fields["stream"]; has && json.Unmarshal(raw, &r.Stream) != nil {
		return nil, Invalid(http.StatusBadRequest, "invalid_type", "stream", "The field stream must be true or false.")
	}
	var options map[string]json.RawMessage
	if raw, has := r.fields["stream_options"]; has && json.Unmarshal(raw, &options) != nil {
		return nil, Invalid(http.StatusBadRequest, "invalid_type", "stream_options",
			"The field stream_options must be an object.")
	}
	if raw, has := options["include_usage"]; has && json.Unmarshal(raw, &r.AsksUsage) != nil {
		return nil, Invalid(http.StatusBadRequest, "invalid_type", "stream_options.include_usage",
			"The field include_usage must be true or false.")
	}
	if refused := r.readSize(); refused != nil {
		return nil, refused
	}
	return r, nil
}

// readSize reads how much a request asks for. It is strict, because the client must not control what a
// budget reserves.
func (r *Request) readSize() *Error {
	for _, name := range []string{"max_tokens", "max_completion_tokens"} { // the newer name takes precedence
		found, refused := r.number(name, 0, mostTokens)
		if refused != nil {
			return refused
		}
		if found != nil {
			r.limit = found
		}
	}
	r.answers = 1
	for _, name := range []string{"n", "best_of"} {
		found, refused := r.number(name, 1, mostAnswers)
		if refused != nil {
			return refused
		}
		if found != nil {
			r.answers = max(r.answers, *found)
		}
	}
	var prompts []json.RawMessage
	if json.Unmarshal(r.fields["prompt"], &prompts) == nil && len(prompts) > 0 {
		if first := prompts[0][0]; first == '"' || first == '[' { // otherwise they are the tokens of one prompt
			r.answers *= int64(len(prompts))
		}
	}
	return nil
}

// number returns a whole number, or nil if the body has none.
func (r *Request) number(name string, low, high int64) (*int64, *Error) {
	raw, has := r.fields[name]
	if !has || string(raw) == "null" {
		return nil, nil
	}
	var found int64
	if json.Unmarshal(raw, &found) != nil || found < low || found > high {
		return nil, Invalid(http.StatusBadRequest, "invalid_type", name,
			fmt.Sprintf("The field %s must be a whole number from %d to %d.", name, low, high))
	}
	return &found, nil
}

// For returns the body for a target: with the target's name of the model, and with the usage in a
// stream.
func (r *Request) For(model string) []byte {
	fields := make(map[string]json.RawMessage, len(r.fields)+1)
	for name, value := range r.fields {
		fields[name] = value
	}
	fields["model"] = encoded(model)
	if r.Stream && !r.AsksUsage {
		options := map[string]json.RawMessage{}
		if raw, has := r.fields["stream_options"]; has {
			// ParseRequest accepted it, so it is an object or null
			if json.Unmarshal(raw, &options) != nil || options == nil {
				options = map[string]json.RawMessage{}
			}
		}
		options["include_usage"] = encoded(true)
		fields["stream_options"] = encoded(options)
	}
	return encoded(fields)
}

func encoded(value any) json.RawMessage {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil { // decoded values can always be encoded
		panic(err)
	}
	return bytes.TrimSuffix(body.Bytes(), []byte("\n"))
}

// Guess returns the maximum tokens that a request can use: those of its body and of its response.
func (r *Request) Guess() Usage {
	most := int64(unboundedGuess)
	if r.limit != nil {
		most = *r.limit
	}
	return Usage{Input: int64(r.Bytes) / bytesPerToken, Output: most * r.answers, IsGuess: true}
}
