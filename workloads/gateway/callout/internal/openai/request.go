// Package openai reads requests and responses of the OpenAI API, and creates its errors.
//
// Requests are read but never encoded again: the client's own bytes pass.
package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"mime"
	"strings"

	"gke-inference/gateway/internal/apierror"
	"gke-inference/gateway/internal/forms"
	"gke-inference/gateway/internal/members"
	"gke-inference/gateway/internal/paths"
	"gke-inference/gateway/internal/tokens"
)

// Request has the fields of a request body that determine its cost and response.
type Request struct {
	Model string
	// Stream is whether the response is a stream of events.
	Stream bool
	// Usage is what the client asks of the usage of a stream.
	Usage UsageOptions
	// Adapters are those that a request for images or videos names beside the model, all of which must be
	// permitted.
	Adapters []string
	// Size is the number of tokens that the request can use.
	Size tokens.Size
}

// JSONContentType refuses bodies that are not plain JSON in UTF-8.
func JSONContentType(contentType, encoding string) *Error {
	kind, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "application/json" {
		return WrongContentType("content-type", "application/json", contentType)
	}
	switch strings.ToLower(parameters["charset"]) {
	case "", "utf-8", "utf8": // both are labels of UTF-8 in the Encoding Standard
	default:
		return WrongContentType("content-type", "application/json in UTF-8", contentType)
	}
	if encoding != "" && !strings.EqualFold(encoding, "identity") {
		return WrongContentType("content-encoding", "identity", encoding)
	}
	return nil
}

// ContentType refuses bodies that are not plain JSON, or not plain forms where paths accept them.
func ContentType(path string, contentTypes []string, encoding string) (boundary string, fault *Error) {
	if path != paths.Edits || !forms.Is(contentTypes) {
		first := ""
		if len(contentTypes) > 0 {
			first = contentTypes[0]
		}
		return "", JSONContentType(first, encoding)
	}
	if encoding != "" && !strings.EqualFold(encoding, "identity") {
		return "", WrongContentType("content-encoding", "identity", encoding)
	}
	boundary, wrong := forms.Boundary(contentTypes)
	if wrong != nil {
		return "", InvalidForm(wrong)
	}
	return boundary, nil
}

// ReadForm reads the form of a request.
func ReadForm(body []byte, boundary string) (*forms.Form, *Error) {
	form, wrong := forms.Read(body, boundary)
	if wrong == nil {
		wrong = form.Check()
	}
	if wrong != nil {
		return nil, InvalidForm(wrong)
	}
	return form, nil
}

// ParseRequest reads a body. Parsers disagree about which of two equal keys counts, so duplicate keys
// are refused: no request can show one model here and a different one to the engine.
//
// modelOf returns what is known about a model.
func ParseRequest(path string, body []byte, modelOf func(name string) tokens.Model) (Request, *Error) {
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	if len(trimmed) == 0 || trimmed[0] != '{' || !json.Valid(body) {
		return Request{}, apierror.Invalid(400, "invalid_json", "", "The body must be one JSON object.")
	}
	members, duplicate := topLevel(body)
	if duplicate != "" {
		return Request{}, apierror.Invalid(400, "duplicate_key", apierror.Clipped(duplicate),
			"`%s` must appear only once in the body.", apierror.Clipped(duplicate))
	}
	var request Request
	model, isString := text(members["model"])
	if !isString || model == "" {
		return Request{}, apierror.Invalid(400, "invalid_model", "model", "`model` must be a string with the name of a model.")
	}
	request.Model = model
	if fault := request.readAdapters(members[adapterNames]); fault != nil {
		return Request{}, fault
	}
	if fault := request.readStream(members); fault != nil {
		return Request{}, fault
	}
	size, err := tokens.Of(path, body, modelOf(model))
	var wrong *tokens.Invalid
	if errors.As(err, &wrong) {
		return Request{}, apierror.Invalid(400, "invalid_type", wrong.Field, "%s", wrong.Error())
	}
	request.Size = size
	return request, nil
}

// adapterNames is the field of the image server with the names of several adapters.
const adapterNames = "adapter_names"

var wanted = map[string]bool{
	"model": true, "stream": true, "stream_options": true, adapterNames: true,
}

func topLevel(body []byte) (found map[string][]byte, duplicate string) {
	found = map[string][]byte{}
	seen := map[string]bool{}
	scanner := members.Reader{
		Want: func(key string) bool { return wanted[key] },
		Found: func(key string, value []byte) {
			if seen[key] && duplicate == "" {
				duplicate = key
			}
			seen[key] = true
			found[key] = bytes.Clone(value)
		},
	}
	scanner.Write(body)
	return found, duplicate
}

func (r *Request) readAdapters(value []byte) *Error {
	if len(value) == 0 {
		return nil
	}
	if err := json.Unmarshal(value, &r.Adapters); err != nil {
		return apierror.Invalid(400, "invalid_type", adapterNames, "`%s` must be a list of names.", adapterNames)
	}
	return nil
}

func (r *Request) readStream(members map[string][]byte) *Error {
	if value, has := members["stream"]; has && string(bytes.TrimSpace(value)) != "null" {
		if err := json.Unmarshal(value, &r.Stream); err != nil {
			return apierror.Invalid(400, "invalid_type", "stream", "`stream` must be true or false.")
		}
	}
	var options map[string]json.RawMessage
	if json.Unmarshal(members["stream_options"], &options) == nil {
		r.Usage.Include = string(options["include_usage"]) == "true"
		r.Usage.Continuous = r.Usage.Include && string(options["continuous_usage_stats"]) == "true"
	}
	return nil
}

func text(raw []byte) (string, bool) {
	var value *string
	if err := json.Unmarshal(raw, &value); err != nil || value == nil {
		return "", false
	}
	return *value, true
}

// CanCheckStream reports whether a stream of a path can be checked while it arrives.
func CanCheckStream(path string) bool {
	return path == paths.Chats || path == paths.Completions || IsTyped(path)
}

// IsTyped reports whether the events of a path's streams have a type.
func IsTyped(path string) bool { return path == paths.Messages || path == paths.Responses }
