package routing

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"gke-inference/gateway/internal/apierror"
	"gke-inference/gateway/internal/paths"
	"gke-inference/gateway/router/internal/reading"
)

// maxModelBytes is the maximum length of a model's name.
const maxModelBytes = 256

// promptMembers are the members without which a picker refuses a body in plain text (its parsers/openai). A
// model without a picker, which `/v1/embeddings` may have, decides for itself.
var promptMembers = map[string]string{
	paths.Chats:       "messages",
	paths.Completions: "prompt",
	paths.Responses:   "input",
	paths.Messages:    "messages",
	paths.CountTokens: "messages",
}

// platformFields are fields of engines through which a client would reach other engines, adapters or
// requests: they name endpoints to read from, weights, requests to cancel, or a place in the queue.
// The second part is SGLang's (srt/entrypoints/openai/protocol.py).
var platformFields = map[string]bool{
	"kv_transfer_params": true,
	"ec_transfer_params": true,
	"vllm_xargs":         true,
	"request_id":         true,
	"priority":           true,

	"bootstrap_host":         true,
	"bootstrap_port":         true,
	"bootstrap_room":         true,
	"bootstrap_pair_key":     true,
	"custom_labels":          true,
	"custom_logit_processor": true,
	"data_parallel_rank":     true,
	"disagg_prefill_dp_rank": true,
	"lora_id":                true,
	"lora_path":              true,
	"rid":                    true,
	"routed_dp_rank":         true,
	"session_params":         true,
}

// statefulFields are fields of the Responses API that need stored responses. An engine would keep them in its own
// memory, where the next request need not arrive (vLLM 0.32.0, entrypoints/openai/responses/serving.py: `response_store`,
// off by default and never emptied).
var statefulFields = map[string]bool{"previous_response_id": true, "conversation": true, "background": true}

// schemaFields contain JSON schemas, whose bounds may be the largest whole number of a type.
var schemaFields = map[string]bool{
	"tools": true, "functions": true, "response_format": true, "text": true, "structured_outputs": true,
}

// findings are what a body says about its route, and the first fault in it.
type findings struct {
	path  string
	model string
	names map[string]bool
	// hasPrompt is whether the body has the member of promptMembers, and it is not null.
	hasPrompt bool
	fault     *apierror.Error
}

func (f *findings) refuse(code, param, format string, args ...any) {
	if f.fault == nil {
		f.fault = apierror.Invalid(400, code, param, format, args...)
	}
}

// found reads one member of the body.
func (f *findings) found(member reading.Member) {
	name := apierror.Clipped(member.Name)
	if f.names[member.Name] {
		f.refuse("duplicate_key", name, "`%s` must appear only once in the body.", name)
	}
	if member.Name == "model" {
		f.names[member.Name] = true
		f.readModel(member)
	}
	if !paths.IsPrompt(f.path) {
		return
	}
	if platformFields[member.Name] {
		f.refuse("unsupported_parameter", name, "`%s` must not be set: only the platform sets it.", name)
	}
	if f.path == paths.Responses && statefulFields[member.Name] {
		f.readState(member)
	}
	if member.IsInexact && !schemaFields[member.Name] {
		f.refuse("invalid_value", name,
			"`%s` must not have whole numbers beyond 2^53, which would change on the way to the model.", name)
	}
	if member.Name == promptMembers[f.path] {
		f.readPrompt(member)
	}
	if f.path == paths.Completions && member.Name == "prompt" && member.HasNumbers {
		f.refuse("invalid_type", "prompt",
			"`prompt` must be a text or a list of texts: the gateway does not accept tokens.")
	}
}

func (f *findings) readModel(member reading.Member) {
	var model *string
	switch {
	case !member.IsWhole:
		f.refuse("invalid_model", "model", "`model` must have at most %d bytes.", maxModelBytes)
	case json.Unmarshal(member.Value, &model) != nil || model == nil || *model == "":
		f.refuse("invalid_model", "model", "`model` must be a string with the name of a model.")
	case len(*model) > maxModelBytes:
		f.refuse("invalid_model", "model", "`model` must have at most %d bytes.", maxModelBytes)
	case !utf8.ValidString(*model) || strings.ContainsFunc(*model, unicode.IsControl):
		f.refuse("invalid_model", "model", "`model` must not have control characters.")
	default:
		f.model = *model
	}
}

// readState refuses a request that needs a stored response, with OpenAI's code if it names one.
func (f *findings) readState(member reading.Member) {
	switch text := string(bytes.TrimSpace(member.Value)); {
	case text == "null" || text == "false":
	case member.Name == "previous_response_id":
		f.refuse("previous_response_not_found", member.Name,
			"The previous response is not stored: the gateway keeps no responses. Send its items in `input`.")
	default:
		f.refuse("unsupported_parameter", member.Name, "`%s` must not be set: the gateway keeps no responses.", member.Name)
	}
}

// readPrompt refuses a prompt without content, which a picker refuses as well.
func (f *findings) readPrompt(member reading.Member) {
	text := bytes.TrimSpace(member.Value)
	if string(text) == "null" {
		return // as if it were missing
	}
	f.hasPrompt = true
	inner, isList := bytes.CutPrefix(text, []byte("["))
	isEmptyList := isList && bytes.HasPrefix(bytes.TrimSpace(inner), []byte("]"))
	switch {
	case member.Name == "messages" && !isList:
		f.refuse("invalid_type", "messages", "`messages` must be a list of messages.")
	case member.Name == "messages" && isEmptyList:
		f.refuse("empty_array", "messages", "`messages` must have at least one message.")
	case member.Name == "prompt" && (isEmptyList || string(text) == `""`):
		f.refuse("invalid_value", "prompt", "`prompt` must not be empty.")
	}
}

// check returns the fault of a complete body.
func (f *findings) check(reader *reading.Reader) *apierror.Error {
	switch {
	case f.fault != nil:
	case !reader.IsComplete():
		f.refuse("invalid_json", "", "The body must be one JSON object in UTF-8, with at most %d levels.", reading.MaxDepth)
	case f.model == "" && paths.IsPrompt(f.path):
		f.refuse("invalid_model", "model", "`model` must be a string with the name of a model.")
	case !f.hasPrompt && promptMembers[f.path] != "":
		name := promptMembers[f.path]
		f.refuse("missing_required_parameter", name, "`%s` must be set.", name)
	}
	return f.fault
}

// plainPath returns a path without its query and without slashes at its end.
func plainPath(path string) string {
	path, _, _ = strings.Cut(path, "?")
	if trimmed := strings.TrimRight(path, "/"); trimmed != "" {
		return trimmed
	}
	return path
}
