package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"gke-inference/gateway/internal/apierror"
	"gke-inference/gateway/internal/paths"
)

// Typed splits a stream of messages or responses, whose events have a type, into texts that grow and other events.
type Typed struct {
	path   string
	places []*grown
	count  int
	// response is the ID of a response; usage is that of a message, of whose blocks the client has an open one.
	response any
	usage    map[string]any
	isOpen   bool
	index    any
}

// grown is a field with a growing text.
type grown struct {
	key   string
	event map[string]any
	// inner is the field of Anthropic's delta; empty for a delta that is a text.
	inner string
	growing
}

// deltaFields are the texts of Anthropic's deltas, by type (vLLM 0.32.0, entrypoints/anthropic/protocol.py).
var deltaFields = map[string]string{
	"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json", "signature_delta": "signature",
}

// NewTyped returns the state before the first event of a path.
func NewTyped(path string) *Typed { return &Typed{path: path} }

// Take reads the data of the next event. An event with nothing but a part of a text is held; isKnown is false for
// what is no event of the API.
func (t *Typed) Take(data []byte) (isHeld, isKnown bool) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var event map[string]any
	if decoder.Decode(&event) != nil {
		return false, false
	}
	kind, isText := event["type"].(string)
	if !isText {
		return false, false
	}
	if message, has := event["message"].(map[string]any); has {
		t.usage = numbersOf(message["usage"])
	}
	if response, has := event["response"].(map[string]any); has {
		t.response = headOf(response)["id"]
	}
	if !strings.HasSuffix(kind, "delta") || kind == "message_delta" {
		return false, true
	}
	return t.hold(kind, event)
}

// hold keeps the text of a delta, and of its event the fields that say where the text belongs.
func (t *Typed) hold(kind string, event map[string]any) (isHeld, isKnown bool) {
	made := map[string]any{"type": kind}
	content, isText := event["delta"].(string)
	inner := ""
	if delta, isObject := event["delta"].(map[string]any); isObject {
		name, _ := delta["type"].(string)
		inner = deltaFields[name]
		content, isText = delta[inner].(string)
		if inner == "" || len(delta) > 2 {
			return false, false
		}
		made["delta"] = map[string]any{"type": name}
	}
	if !isText {
		return false, false
	}
	key := kind + inner
	for _, name := range []string{"index", "output_index", "content_index", "summary_index"} {
		if number, isNumber := event[name].(json.Number); isNumber {
			made[name] = number
			key += fmt.Sprint(" ", name, number)
		}
	}
	if item, has := event["item_id"].(string); has && len(item) <= 200 && !strings.ContainsAny(item, " \t\r\n") {
		made["item_id"] = item
	}
	for _, one := range t.places {
		if one.key == key {
			one.add(content)
			return true, true
		}
	}
	t.places = append(t.places, &grown{key, made, inner, growing{content, len(content)}})
	return true, true
}

// IsDue reports whether a text has grown by a window.
func (t *Typed) IsDue() bool {
	for _, one := range t.places {
		if one.isDue() {
			return true
		}
	}
	return false
}

func (t *Typed) meant(which Which) []*grown {
	var found []*grown
	for _, one := range t.places {
		if one.held != "" && (which != DueChoices || one.fresh > 0) {
			found = append(found, one)
		}
	}
	return found
}

// Held returns the texts to check.
func (t *Typed) Held(which Which) []string {
	return heldTexts(t.meant(which))
}

// Release returns the events of checked texts, with their current content.
func (t *Typed) Release(which Which, clean []string) []byte {
	var out []byte
	for at, one := range t.meant(which) {
		passes := one.release(which, clean[at])
		if passes == "" {
			continue
		}
		if delta, isObject := one.event["delta"].(map[string]any); isObject && one.inner != "" {
			delta[one.inner] = passes
		} else {
			one.event["delta"] = passes
		}
		if one.event["type"] == "response.output_text.delta" {
			one.event["logprobs"] = []any{}
		}
		out = append(out, t.written(one.event)...)
	}
	return out
}

// Event returns an event that is checked, with its place in the stream that the client gets.
func (t *Typed) Event(data []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var event map[string]any
	if decoder.Decode(&event) != nil { // Take has read it
		return nil
	}
	return t.written(event)
}

func (t *Typed) written(event map[string]any) []byte {
	if t.path == paths.Responses {
		event["sequence_number"] = t.count
		t.count++
	}
	kind, _ := event["type"].(string)
	switch kind {
	case "content_block_start":
		t.isOpen, t.index = true, event["index"]
	case "content_block_stop":
		t.isOpen = false
	}
	return append([]byte("event: "+kind+"\n"), encoded(event)...)
}

// Filtered returns the last events of a stream that a guardrail blocks. response is the one that a client of the
// Responses API gets.
func (t *Typed) Filtered(response []byte) []byte {
	if t.path == paths.Responses {
		var made map[string]any
		if json.Unmarshal(response, &made) != nil { // it was encoded as JSON
			return nil
		}
		if t.response != nil {
			made["id"] = t.response
		}
		delete(made, "usage")
		return t.written(map[string]any{"type": "response.incomplete", "response": made})
	}
	var out []byte
	if t.isOpen {
		out = t.written(map[string]any{"type": "content_block_stop", "index": t.index})
	}
	out = append(out, t.written(map[string]any{
		"type": "message_delta", "delta": map[string]any{"stop_reason": "refusal", "stop_sequence": nil}, "usage": t.usage,
	})...)
	return append(out, t.written(map[string]any{"type": "message_stop"})...)
}

// Failed returns the event of an error in a stream that has started.
func (t *Typed) Failed(message string) []byte {
	if t.path == paths.Responses {
		return t.written(map[string]any{"type": "error", "code": "server_error", "message": message, "param": nil})
	}
	fault := apierror.Failed(500, "server_error", message).On(t.path)
	return append(append([]byte("event: error\ndata: "), fault.Body()...), "\n\n"...)
}
