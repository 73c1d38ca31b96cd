package openai

import (
	"encoding/json"
	"strings"
)

// Fields that pass with an event, besides its texts. Everything else that an engine sends is dropped.
var (
	headFields   = []string{"id", "object", "created", "model", "system_fingerprint", "service_tier"}
	choiceFields = map[string]bool{"index": true, "text": true, "delta": true, "finish_reason": true}
	finishes     = map[any]bool{
		nil: true, "stop": true, "length": true, "tool_calls": true, contentFilter: true, "function_call": true,
		"abort": true, "error": true, "repetition": true,
	}
)

// Loose returns the names and IDs of calls in the last event, which pass with it once they are checked.
func (c *Chunks) Loose() []string { return c.loose }

// headOf returns the fields of an event that identify it. None of them is a text that a model wrote.
func headOf(event map[string]any) map[string]any {
	head := map[string]any{}
	for _, name := range headFields {
		switch value := event[name].(type) {
		case json.Number:
			head[name] = value
		case string:
			if len(value) <= 200 && !strings.ContainsAny(value, " \t\r\n") {
				head[name] = value
			}
		}
	}
	return head
}

// numbersOf returns an object with only its numbers, and those of inner objects.
func numbersOf(value any) map[string]any {
	object, isObject := value.(map[string]any)
	if !isObject {
		return nil
	}
	kept := map[string]any{}
	for name, value := range object {
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
			continue
		}
		if number, isNumber := value.(json.Number); isNumber {
			kept[name] = number
		} else if inner := numbersOf(value); inner != nil {
			kept[name] = inner
		}
	}
	return kept
}

// keepKnown removes the fields of a choice that repeat its texts or that nobody knows, and reports
// whether the reason to finish is a known one.
func keepKnown(choice map[string]any) bool {
	for name := range choice {
		if !choiceFields[name] {
			delete(choice, name)
		}
	}
	reason := choice["finish_reason"]
	if _, isText := reason.(string); reason != nil && !isText {
		return false
	}
	return finishes[reason]
}

// takeNames keeps the ID and the name of a call to be checked, and reports whether they are texts.
func (c *Chunks) takeNames(call, function map[string]any) bool {
	if kind := call["type"]; kind != nil && kind != "function" {
		return false
	}
	if _, isNumber := call["index"].(json.Number); call["index"] != nil && !isNumber {
		return false
	}
	if _, isObject := call["function"].(map[string]any); call["function"] != nil && !isObject {
		return false
	}
	for name := range function {
		if name != "name" && name != "arguments" {
			return false
		}
	}
	for _, value := range []any{call["id"], function["name"]} {
		text, isText := value.(string)
		if value != nil && !isText {
			return false
		}
		if text != "" {
			c.loose = append(c.loose, text)
		}
	}
	return true
}

// engineError replaces the error of an engine in a stream, whose message can quote texts.
func engineError() map[string]any {
	return map[string]any{"error": map[string]any{
		"message": "The engine ended the response with an error.", "type": "server_error", "param": nil, "code": nil,
	}}
}

func hasNames(calls []any) bool {
	for _, one := range calls {
		call, _ := one.(map[string]any)
		function, _ := call["function"].(map[string]any)
		if call["id"] != nil || function["name"] != nil {
			return true
		}
	}
	return false
}
