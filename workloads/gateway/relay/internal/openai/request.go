package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"

	"gke-inference/gateway/internal/tokens"
)

// Request is the body of a request for tokens.
type Request struct {
	Model  string
	Stream bool
	// AsksUsage is whether the client requested the usage in a stream.
	AsksUsage bool
	// Size is the number of tokens that the request can use.
	Size   tokens.Size
	fields map[string]json.RawMessage
}

// ParseRequest reads a body of a path such as chat/completions. modelOf returns what is known about a
// model.
func ParseRequest(path string, body []byte, modelOf func(name string) tokens.Model) (*Request, *Error) {
	r := &Request{}
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
	// a client must not control what a budget reserves
	size, err := tokens.Of("/v1/"+path, body, modelOf(r.Model))
	var wrong *tokens.Invalid
	if errors.As(err, &wrong) {
		return nil, Invalid(http.StatusBadRequest, "invalid_type", wrong.Field, wrong.Error())
	}
	r.Size = size
	return r, nil
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

// DropCacheSalt removes the salt of the prefix cache: it is for the engines of a pool, and providers refuse
// fields that they do not know.
func (r *Request) DropCacheSalt() { delete(r.fields, "cache_salt") }

// Sent releases the body: For must not be called any more.
func (r *Request) Sent() { r.fields = nil }

func encoded(value any) json.RawMessage {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil { // decoded values can always be encoded
		panic(err)
	}
	return bytes.TrimSuffix(body.Bytes(), []byte("\n"))
}

// Guess returns the maximum tokens that a request can use: those of its prompts and of its answers.
func (r *Request) Guess() Usage {
	return Usage{Input: r.Size.MostPrompt, Output: r.Size.MostAnswer, IsGuess: true}
}
