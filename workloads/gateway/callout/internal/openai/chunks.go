package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Done is the data of the event that ends a stream.
const Done = "[DONE]"

const (
	// windowBytes is the amount of new text that is checked at once; after a complete sentence,
	// sentenceBytes is enough.
	windowBytes   = 192
	sentenceBytes = 64
	// overlapBytes stay for the next window. Only patterns shorter than this are found across two
	// windows.
	overlapBytes = 128
)

// ChunkKind is the content of an event.
type ChunkKind int

const (
	// ChunkHeld is an event with only texts, which are now held.
	ChunkHeld ChunkKind = iota
	// ChunkEndsChoices is an event with a choice whose texts are complete.
	ChunkEndsChoices
	// ChunkOther is an event with more than texts; Others returns it without them.
	ChunkOther
	// ChunkUnreadable is not an event of chats or completions.
	ChunkUnreadable
)

// Selection of texts of a stream.
type Which int

const (
	// DueChoices selects all held texts, except for the last part of each.
	DueChoices Which = iota
	// EndingChoices selects the whole texts of the choices that the last event ended.
	EndingChoices
	// AllChoices selects the whole texts of all choices.
	AllChoices
)

// Chunks splits a stream of chats or completions into texts, one for each field of each choice, and the
// rest of the events.
type Chunks struct {
	base    map[string]any
	places  []*place
	choices []string
	ended   map[string]bool
	ending  map[string]bool
	others  []any
	other   map[string]any
	// loose are short texts that pass with the last event, once they are checked.
	loose  []string
	isLast bool
}

// place is a field of a choice with a growing text.
type place struct {
	choice string
	index  any
	fill   func(choice map[string]any, content string)
	name   string
	growing
}

// NewChunks returns the state before the first event.
func NewChunks() *Chunks { return &Chunks{ended: map[string]bool{}} }

// Take reads the data of the next event.
func (c *Chunks) Take(data []byte) ChunkKind {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var event map[string]any
	if decoder.Decode(&event) != nil {
		return ChunkUnreadable
	}
	c.ending, c.others, c.isLast, c.loose = map[string]bool{}, nil, false, nil
	choices, isList := event["choices"].([]any)
	if !isList {
		if _, isError := event["error"]; !isError {
			return ChunkUnreadable
		}
		c.other, c.isLast = engineError(), true
		return ChunkOther
	}
	c.base = headOf(event)
	c.other = headOf(event)
	if used := numbersOf(event["usage"]); used != nil {
		c.other["usage"] = used
	}
	if len(choices) == 0 {
		c.other["choices"], c.isLast = []any{}, true
		return ChunkOther
	}
	for _, one := range choices {
		choice, isObject := one.(map[string]any)
		if !isObject || !c.takeChoice(choice) {
			return ChunkUnreadable
		}
	}
	switch {
	case len(c.ending) > 0:
		return ChunkEndsChoices
	case len(c.others) > 0:
		return ChunkOther
	default:
		return ChunkHeld
	}
}

// takeChoice holds the texts of a choice; the rest of it passes unchanged.
func (c *Chunks) takeChoice(choice map[string]any) bool {
	if choice["index"] == nil {
		choice["index"] = json.Number("0")
	}
	if _, isNumber := choice["index"].(json.Number); !isNumber || !keepKnown(choice) {
		return false
	}
	key := fmt.Sprint(choice["index"])
	if !c.isKnown(key) {
		c.choices = append(c.choices, key)
	}
	hasMore := choice["finish_reason"] != nil
	if hasMore {
		c.ending[key], c.ended[key] = true, true
	}
	if text, has := choice["text"]; has {
		content, isString := text.(string)
		if !isString {
			return false
		}
		c.hold(key, "text", choice["index"], content, func(one map[string]any, content string) { one["text"] = content })
		choice["text"] = ""
	}
	delta, hasDelta := choice["delta"].(map[string]any)
	if hasDelta {
		isMore, ok := c.takeDelta(key, choice["index"], delta)
		if !ok {
			return false
		}
		hasMore = hasMore || isMore
	}
	if hasMore {
		c.others = append(c.others, choice)
	}
	return true
}

// deltaTexts are the text fields of a chat's delta.
var deltaTexts = []string{"content", "reasoning_content", "reasoning", "refusal"}

func (c *Chunks) takeDelta(key string, index any, delta map[string]any) (hasMore, ok bool) {
	for _, name := range deltaTexts {
		value, has := delta[name]
		if !has || value == nil {
			continue
		}
		content, isString := value.(string)
		if !isString {
			return false, false
		}
		c.hold(key, name, index, content, func(one map[string]any, content string) {
			one["delta"] = map[string]any{name: content}
		})
		delta[name] = ""
	}
	calls, hasCalls := delta["tool_calls"].([]any)
	if hasCalls {
		for _, one := range calls {
			if !c.takeCall(key, index, one) {
				return false, false
			}
		}
	}
	for name, value := range delta {
		if name == "tool_calls" {
			hasMore = hasMore || hasNames(calls)
			continue
		}
		text, isString := value.(string)
		isNothing := value == nil || (isString && text == "")
		if name == "role" && value != nil && value != "assistant" {
			return false, false
		}
		if !isNothing && name != "role" && !slices.Contains(deltaTexts, name) {
			return false, false // a text that is not held, such as a transcript, would pass without a check
		}
		hasMore = hasMore || !isNothing
	}
	return hasMore, true
}

// callMembers are the fields of a function call; its arguments are held.
var callMembers = []string{"index", "id", "type", "function"}

func (c *Chunks) takeCall(key string, index, found any) bool {
	call, isObject := found.(map[string]any)
	if !isObject {
		return false
	}
	for name := range call {
		if !slices.Contains(callMembers, name) {
			return false
		}
	}
	function, hasFunction := call["function"].(map[string]any)
	if !c.takeNames(call, function) {
		return false
	}
	if !hasFunction {
		return true
	}
	arguments, has := function["arguments"].(string)
	if !has {
		return function["arguments"] == nil
	}
	number := call["index"]
	c.hold(key, fmt.Sprint("call ", number), index, arguments, func(one map[string]any, content string) {
		one["delta"] = map[string]any{"tool_calls": []any{
			map[string]any{"index": number, "function": map[string]any{"arguments": content}},
		}}
	})
	function["arguments"] = ""
	return true
}

func (c *Chunks) isKnown(choice string) bool {
	for _, one := range c.choices {
		if one == choice {
			return true
		}
	}
	return false
}

func (c *Chunks) hold(choice, name string, index any, content string, fill func(map[string]any, string)) {
	if content == "" {
		return
	}
	for _, one := range c.places {
		if one.choice == choice && one.name == name {
			one.add(content)
			return
		}
	}
	c.places = append(c.places, &place{choice, index, fill, name, growing{content, len(content)}})
}

// EndsStream reports whether the last event comes after all choices, as the event with the usage does.
func (c *Chunks) EndsStream() bool { return c.isLast }

// IsDue reports whether a text has grown by a window.
func (c *Chunks) IsDue() bool {
	for _, one := range c.places {
		if one.isDue() {
			return true
		}
	}
	return false
}

// Held returns the texts to check.
func (c *Chunks) Held(which Which) []string {
	return heldTexts(c.meant(which))
}

func (c *Chunks) meant(which Which) []*place {
	var found []*place
	for _, one := range c.places {
		isMeant := which != EndingChoices || c.ending[one.choice]
		isNew := which != DueChoices || one.fresh > 0
		if isMeant && isNew && one.held != "" {
			found = append(found, one)
		}
	}
	return found
}

// Release returns the events of checked texts, with their current content.
func (c *Chunks) Release(which Which, clean []string) []byte {
	var out []byte
	for at, one := range c.meant(which) {
		passes := one.release(which, clean[at])
		if passes == "" {
			continue
		}
		choice := map[string]any{"index": one.index, "finish_reason": nil}
		one.fill(choice, passes)
		out = append(out, c.event([]any{choice})...)
	}
	return out
}

// cutOf returns how much of a checked text passes: up to a space before the overlap, so that words stay
// whole. A text without spaces is cut between two characters.
func cutOf(text string) int {
	cut := len(text) - overlapBytes
	if cut <= 0 {
		return 0
	}
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	space := strings.LastIndexFunc(text[:cut], unicode.IsSpace)
	if space < 0 {
		if len(text) < 4*overlapBytes {
			return 0
		}
		return cut
	}
	_, size := utf8.DecodeRuneInString(text[space:])
	return space + size
}

// Others returns the last event without the held texts.
func (c *Chunks) Others() []byte {
	if len(c.others) == 0 {
		return encoded(c.other)
	}
	c.other["choices"] = c.others
	return encoded(c.other)
}

// Filtered returns the last event of a stream that a guardrail blocks: it ends each choice.
func (c *Chunks) Filtered() []byte {
	var choices []any
	for _, one := range c.choices {
		if c.ended[one] && !c.ending[one] {
			continue
		}
		choice := map[string]any{"index": json.Number(one), "finish_reason": contentFilter}
		if object, _ := c.base["object"].(string); object == "text_completion" {
			choice["text"] = ""
		} else {
			choice["delta"] = map[string]any{}
		}
		choices = append(choices, choice)
	}
	return c.event(choices)
}

func (c *Chunks) event(choices []any) []byte {
	event := map[string]any{"choices": choices}
	for name, value := range c.base {
		event[name] = value
	}
	return encoded(event)
}

func encoded(event map[string]any) []byte {
	var made bytes.Buffer
	made.WriteString("data: ")
	encoder := json.NewEncoder(&made)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(event) != nil { // it was decoded from JSON
		return nil
	}
	made.WriteString("\n")
	return made.Bytes()
}

// StreamError returns the event of an error in a stream that has started.
func StreamError(message string) []byte {
	return append(append([]byte("data: "), Unavailable(message).Body()...), "\n\n"...)
}

// StreamFailure returns the last events of a stream of a path that fails, in the form of its API.
func StreamFailure(path, message string) []byte {
	if IsTyped(path) {
		return NewTyped(path).Failed(message)
	}
	return append(StreamError(message), []byte("data: "+Done+"\n\n")...)
}
