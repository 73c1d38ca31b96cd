package openai

import (
	"bytes"
	"encoding/json"
)

// Question is a chat request whose answer another request with the same meaning can have.
type Question struct {
	// Text is the last message, which is compared by meaning.
	Text string
	// Context is everything else that shapes the answer, which must be equal: the messages before, the
	// model, and every setting.
	Context []byte
}

const maxQuestionBytes = 8 << 10

// notContext are the fields that do not shape the text of an answer.
var notContext = []string{"stream", "stream_options", "user", "metadata", "safety_identifier", "store"}

// notReusable are the fields that ask for more than one text: choices, calls of tools, sound, or numbers.
var notReusable = []string{"tools", "functions", "logprobs", "audio", "best_of"}

// ParseQuestion reads the body of a chat request. It returns false where no known answer can be given:
// the last message is not one text of the user, or the client asks for several choices, tools or sound.
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
	delete(members, "n") // 1, or as good as
	for _, name := range notContext {
		delete(members, name)
	}
	context, err := json.Marshal(members) // in the order of the names
	return Question{Text: last, Context: context}, err == nil
}

func userText(message json.RawMessage) (string, bool) {
	// a map, as a struct takes names in any case: `Content` would be another question than the engine's
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
