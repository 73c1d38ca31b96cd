package openai

import (
	"bytes"
	"encoding/json"
)

// Question is a chat request that can share its response with requests of the same meaning.
type Question struct {
	// Text is the last message, which is compared by meaning.
	Text string
	// Context is everything else that affects the response, and must be equal: the earlier messages,
	// the model, and all settings.
	Context []byte
}

const maxQuestionBytes = 8 << 10

// notContext lists the fields that do not affect the text of a response.
var notContext = []string{"stream", "stream_options", "user", "metadata", "safety_identifier", "store"}

// notReusable lists the fields that request more than one text: choices, tool calls, audio, or numbers.
var notReusable = []string{"tools", "functions", "logprobs", "audio", "best_of"}

// ParseQuestion reads the body of a chat request. It returns false if no cached response can be used:
// the last message is not a single text of the user, or the client requests several choices, tools or
// audio.
func ParseQuestion(body []byte) (Question, bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return Question{}, false
	}
	for _, name := range notReusable {
		if value, has := members[name]; has && !isEmpty(value) {
			return Question{}, false
		}
	}
	if choices, has := members["n"]; has && !isEmpty(choices) && string(bytes.TrimSpace(choices)) != "1" {
		return Question{}, false
	}
	var messages []json.RawMessage
	if json.Unmarshal(members["messages"], &messages) != nil || len(messages) == 0 {
		return Question{}, false
	}
	last, asked := userText(messages[len(messages)-1])
	if !asked {
		return Question{}, false
	}
	before, err := json.Marshal(messages[:len(messages)-1])
	if err != nil {
		return Question{}, false
	}
	members["messages"] = before
	delete(members, "n") // 1, or equivalent
	for _, name := range notContext {
		delete(members, name)
	}
	context, err := json.Marshal(members) // sorted by name
	return Question{Text: last, Context: context}, err == nil
}

func userText(message json.RawMessage) (string, bool) {
	// a map, because a struct ignores the case of names: the engine would not read `Content` as the
	// question
	var found map[string]json.RawMessage
	if json.Unmarshal(message, &found) != nil || len(found) != 2 {
		return "", false
	}
	if role, _ := text(found["role"]); role != "user" {
		return "", false
	}
	if whole, isText := text(found["content"]); isText {
		return whole, fits(whole)
	}
	var parts []map[string]json.RawMessage
	if json.Unmarshal(found["content"], &parts) != nil || len(parts) != 1 || len(parts[0]) != 2 {
		return "", false
	}
	kind, _ := text(parts[0]["type"])
	whole, isText := text(parts[0]["text"])
	return whole, kind == "text" && isText && fits(whole)
}

func fits(question string) bool { return question != "" && len(question) <= maxQuestionBytes }

func isEmpty(value json.RawMessage) bool {
	switch string(bytes.TrimSpace(value)) {
	case "null", "false", "[]":
		return true
	}
	return false
}
