package openai

import (
	"bytes"
	"encoding/json"
	"strings"

	"gke-inference/gateway/internal/apierror"
)

// Text is a text inside a JSON body.
type Text struct {
	// Role is the role of the surrounding message; empty if there is none.
	Role    string
	Content string

	start, end int
}

// promptFields are the fields of a request whose texts become a prompt, on any path.
var promptFields = set("messages", "prompt", "suffix", "input", "instructions", "system", "query", "queries",
	"documents", "text_1", "text_2", "data_1", "data_2", "negative_prompt", "chat_template", "chat_template_kwargs")

// answerFields are the fields of a response that contain its texts: of chats and completions, of
// responses, of messages, and of rerankers, which repeat documents.
var answerFields = set("choices", "output", "content", "results")

// noText are fields, at any depth, whose strings no model reads as text.
var noText = set("type", "role", "id", "call_id", "tool_call_id", "image_url", "video_url", "audio_url", "input_audio",
	"url", "data", "file_data", "file_id", "detail", "media_type", "encrypted_content", "status", "cache_control",
	"finish_reason", "stop_reason", "object", "logprobs")

// encodedPrompts are prompts that no guard can read.
var encodedPrompts = []string{"prompt_token_ids", "prompt_embeds", "input_ids", "input_embeds"}

// repeats are fields of a request that make an engine repeat its response in another format.
var repeats = []string{"logprobs", "top_logprobs", "prompt_logprobs", "return_token_ids", "return_tokens_as_token_ids"}

// streamedPaths are the paths whose streams can be checked while they arrive.
var streamedPaths = set("/v1/chat/completions", "/v1/completions")

func set(names ...string) map[string]bool {
	found := map[string]bool{}
	for _, name := range names {
		found[name] = true
	}
	return found
}

// PromptTexts returns the texts of a request that ParseRequest accepted, in order. It refuses prompts
// that are not text.
func PromptTexts(body []byte) ([]Text, *Error) {
	found := texts{body: body, wanted: promptFields}
	if !found.read() || found.hasNumbers {
		return nil, apierror.Invalid(400, "invalid_type", "prompt", "The prompt must be text: a guardrail of this model reads it.")
	}
	if name := firstSet(body, encodedPrompts); name != "" {
		return nil, apierror.Invalid(400, "invalid_type", name, "`%s` must not be set: a guardrail of this model reads prompts.", name)
	}
	return found.found, nil
}

// AnswerTexts returns the texts of a response, and whether it could be read.
func AnswerTexts(body []byte) ([]Text, bool) {
	found := texts{body: body, wanted: answerFields}
	isReadable := json.Valid(body) && found.read() // Valid limits the nesting depth
	return found.found, isReadable
}

// CheckedAnswer refuses a request whose response no guard could check: one that requests its texts in
// another format, or a stream of an unknown kind.
func CheckedAnswer(path string, isStream bool, body []byte) *Error {
	if name := firstSet(body, repeats); name != "" {
		return apierror.Invalid(400, "invalid_type", name, "`%s` must not be set: a guardrail of this model reads responses.", name)
	}
	if isStream && !streamedPaths[path] {
		return apierror.Invalid(400, "invalid_type", "stream", "`stream` must be false on this path: a guardrail of this model reads responses.")
	}
	return nil
}

// firstSet returns the first of the names whose value in a body turns something on.
func firstSet(body []byte, names []string) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return ""
	}
	for _, name := range names {
		value := string(bytes.TrimSpace(members[name]))
		if value != "" && value != "null" && value != "false" {
			return name
		}
	}
	return ""
}

// texts finds the texts of a body with their positions, so that they can be replaced.
type texts struct {
	body       []byte
	wanted     map[string]bool
	found      []Text
	hasNumbers bool
	decoder    *json.Decoder
}

func (t *texts) read() bool {
	t.decoder = json.NewDecoder(bytes.NewReader(t.body))
	t.decoder.UseNumber()
	if start, err := t.decoder.Token(); err != nil || start != json.Delim('{') {
		return false
	}
	return t.object(func(key string) bool { return t.wanted[key] }, true)
}

func (t *texts) object(reads func(key string) bool, isTop bool) bool {
	first, role := len(t.found), ""
	for t.decoder.More() {
		key, err := t.decoder.Token()
		if err != nil {
			return false
		}
		name, _ := key.(string)
		value, ok := t.value(reads(name), isTop)
		if !ok {
			return false
		}
		if name == "role" {
			role = value
		}
	}
	for at := first; at < len(t.found); at++ {
		if t.found[at].Role == "" {
			t.found[at].Role = role
		}
	}
	_, err := t.decoder.Token()
	return err == nil
}

// value reads one value and returns it if it is a string. isBare is whether it is inside lists only.
func (t *texts) value(reads, isBare bool) (string, bool) {
	before := t.decoder.InputOffset()
	token, err := t.decoder.Token()
	if err != nil {
		return "", false
	}
	switch found := token.(type) {
	case json.Delim:
		if found == '{' {
			return "", t.object(func(key string) bool { return reads && !noText[key] }, false)
		}
		for t.decoder.More() {
			if _, ok := t.value(reads, isBare); !ok {
				return "", false
			}
		}
		_, err := t.decoder.Token()
		return "", err == nil
	case string:
		if reads {
			start := int(before) + bytes.IndexByte(t.body[before:], '"')
			t.found = append(t.found, Text{Content: found, start: start, end: int(t.decoder.InputOffset())})
		}
		return found, true
	case json.Number:
		t.hasNumbers = t.hasNumbers || (reads && isBare)
	}
	return "", true
}

// Splice returns a body with replaced texts; all other bytes stay the same.
func Splice(body []byte, found []Text, contents []string) []byte {
	var made []byte
	last := 0
	for at, one := range found {
		if one.Content == contents[at] {
			continue
		}
		made = append(made, body[last:one.start]...)
		made = append(made, quoted(contents[at])...)
		last = one.end
	}
	if last == 0 {
		return body
	}
	return append(made, body[last:]...)
}

func quoted(content string) []byte {
	var made strings.Builder
	encoder := json.NewEncoder(&made)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(content) != nil { // strings can always be encoded
		return []byte(`""`)
	}
	return []byte(strings.TrimSuffix(made.String(), "\n"))
}

// FilteredAnswer returns a response without its texts, with the reason in the field of its API.
func FilteredAnswer(body []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var answer map[string]any
	if decoder.Decode(&answer) != nil {
		return []byte("{}")
	}
	choices, _ := answer["choices"].([]any)
	for _, one := range choices {
		if choice, isObject := one.(map[string]any); isObject {
			choice["finish_reason"] = contentFilter
			if message, isObject := choice["message"].(map[string]any); isObject {
				delete(message, "tool_calls")
			}
		}
	}
	if _, has := answer["output"]; has {
		answer["status"] = "incomplete"
		answer["incomplete_details"] = map[string]any{"reason": contentFilter}
	}
	if _, has := answer["stop_reason"]; has {
		answer["stop_reason"] = "refusal"
	}
	made, err := json.Marshal(answer)
	if err != nil {
		return []byte("{}")
	}
	return made
}
