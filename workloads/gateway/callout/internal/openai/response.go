package openai

import (
	"bytes"
	"encoding/json"

	"gke-inference/gateway/internal/jsonwalk"
	"gke-inference/gateway/internal/members"
	"gke-inference/gateway/internal/tokens"
)

// Usage is the usage of a request, as counted by the engine.
type Usage tokens.Usage

// Response reads a response as it passes.
type Response struct {
	usage    Usage
	hasUsage bool
	running  tokens.Running
	// begun is the usage at the beginning of a message, when its prompt alone is known.
	begun   Usage
	texts   tokens.Stream
	members *members.Reader
	stream  *events
	asked   UsageOptions
	// last is the last event with a choice and a usage, as an event with nothing but the usage.
	last []byte
}

// UsageOptions are what a client asks of the usage of its stream (`stream_options`).
type UsageOptions struct {
	// Include is whether the last event has the usage.
	Include bool
	// Continuous is whether each event has the usage so far: an option of vLLM and SGLang.
	Continuous bool
}

// NewResponse returns a reader for one response. Answers is the number of choices for each prompt.
//
// Engines can report the usage of every stream, and some do with each event, so that a stream that is cut
// has a count. Clients get only the usage that they asked for: many read the first choice of each event
// without a check, or add up the usage of all events.
func NewResponse(isStream bool, asked UsageOptions, answers int64) *Response {
	r := &Response{asked: asked, running: tokens.Running{Answers: answers}}
	if isStream {
		r.stream = &events{changes: r.Changes(), found: r.event}
		return r
	}
	r.members = &members.Reader{
		Want: func(key string) bool { return key == "usage" },
		Found: func(key string, value []byte) {
			if key == "usage" {
				r.take(value)
			}
		},
	}
	return r
}

// Changes reports whether the client gets other bytes of a stream than the engine sends.
func (r *Response) Changes() bool { return !r.asked.Include || !r.asked.Continuous }

// NewFile returns a reader for a response that is a file, in which no usage is.
func NewFile() *Response { return &Response{} }

// Pass reads the next piece of the body and returns the bytes to send to the client now.
func (r *Response) Pass(piece []byte) []byte {
	if r.stream != nil {
		return r.stream.pass(piece)
	}
	if r.members != nil {
		r.members.Write(piece)
	}
	return piece
}

// Rest returns the held bytes after the end of the body.
func (r *Response) Rest() []byte {
	if r.stream == nil {
		return nil
	}
	return r.stream.rest()
}

// Usage returns the engine's count of the whole response, and whether there is one.
func (r *Response) Usage() (Usage, bool) { return r.usage, r.hasUsage }

// SoFar returns the usage of a stream without that of the whole response. isCounted is whether the engine
// reported it with its events. Otherwise the answer is an estimate, and so is the prompt unless it is above 0.
func (r *Response) SoFar() (used Usage, isCounted bool) {
	if r.running.Has() {
		return Usage(r.running.Total()), true
	}
	return Usage{r.begun.Prompt, r.begun.Cached, r.texts.Tokens()}, false
}

// HasBegun reports whether an engine has sent a part of the answer of a stream.
func (r *Response) HasBegun() bool { return r.running.Has() || r.texts.Tokens() > 0 }

func (r *Response) take(raw []byte) {
	found, has := readUsage(raw)
	if !has {
		return
	}
	// a stream can report several times; each report is the total so far
	r.usage.Prompt = max(r.usage.Prompt, found.Prompt, r.begun.Prompt)
	r.usage.Completion = max(r.usage.Completion, found.Completion)
	r.usage.Cached = max(r.usage.Cached, found.Cached, r.begun.Cached)
	r.hasUsage = true
}

func readUsage(raw []byte) (found Usage, has bool) {
	var counts *struct {
		PromptTokens     int64 `json:"prompt_tokens"`
		CompletionTokens int64 `json:"completion_tokens"`
		InputTokens      int64 `json:"input_tokens"`
		OutputTokens     int64 `json:"output_tokens"`
		TotalTokens      int64 `json:"total_tokens"`
		CacheRead        int64 `json:"cache_read_input_tokens"`
		CacheWritten     int64 `json:"cache_creation_input_tokens"`
		PromptDetails    struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		InputDetails struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
	}
	if err := json.Unmarshal(raw, &counts); err != nil || counts == nil {
		return Usage{}, false
	}
	// Anthropic's input tokens are those that were neither read from a cache nor written to one
	// (vLLM 0.32.0, entrypoints/anthropic/serving.py, `_build_anthropic_usage`)
	found.Prompt = max(counts.PromptTokens, counts.InputTokens+counts.CacheRead+counts.CacheWritten)
	found.Completion = max(counts.CompletionTokens, counts.OutputTokens)
	if found.Prompt == 0 && found.Completion == 0 {
		found.Prompt = counts.TotalTokens // rerankers report nothing else
	} else {
		found.Completion = max(found.Completion, counts.TotalTokens-found.Prompt) // reasoning tokens can be only in the total
	}
	found.Cached = max(counts.PromptDetails.Cached, counts.InputDetails.Cached, counts.CacheRead)
	return found, true
}

// event reads the data of one event and returns what passes of it.
func (r *Response) event(data []byte) (kept []byte, hides bool) {
	if bytes.Equal(data, []byte("[DONE]")) {
		return r.done(data), false
	}
	if !bytes.Contains(data, []byte(`"usage"`)) {
		r.texts.Add(data)
		return data, false
	}
	cursor, isValid := jsonwalk.New(data)
	if !isValid || cursor.Kind() != '{' {
		r.texts.Add(data)
		return data, false
	}
	found := readEvent(cursor)
	usage := cursor.Raw(found.usage)
	switch {
	case found.choices.Len() == 0: // not of a chat or a completion
		r.take(usage)
		r.take(cursor.Raw(found.response))
		if used, has := readUsage(cursor.Raw(found.message)); has {
			r.begun = used
		}
	case found.count == 0 && len(usage) > 0:
		r.take(usage)
		r.last = nil
		return data, !r.asked.Include
	}
	r.texts.Add(data)
	used, has := readUsage(usage)
	if found.count == 0 || !has {
		return data, false
	}
	r.running.Take(found.index, tokens.Usage(used))
	if r.asked.Continuous {
		return data, false
	}
	if r.asked.Include {
		r.last = replaced(data, found.choices, "[]")
	}
	return without(data, found.key, found.usage), false
}

// done returns the end of a stream. Some providers report the usage together with the last choice, so that
// a client that asked for it gets an event of its own with it before the end.
func (r *Response) done(data []byte) []byte {
	if r.last == nil {
		return data
	}
	kept := append(r.last, "\n\ndata: "...)
	r.last = nil
	return append(kept, data...)
}
