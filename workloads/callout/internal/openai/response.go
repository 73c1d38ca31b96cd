package openai

import (
	"bytes"
	"encoding/json"
)

// Usage is what a request used, as the engine counts it.
type Usage struct {
	Prompt     int64
	Cached     int64
	Completion int64
}

// Response reads an answer while its bytes pass.
type Response struct {
	usage    Usage
	hasUsage bool
	events   int64
	bytes    int64
	members  *Members
	stream   *events
}

// NewResponse returns the reader of an answer.
//
// hideUsage removes the event that carries nothing but usage: an engine that always reports it sends
// it to clients that did not ask, and many of those take the first choice of each event unseen.
func NewResponse(isStream, hideUsage bool) *Response {
	r := &Response{}
	if isStream {
		r.stream = &events{hideUsage: hideUsage, found: r.event}
		return r
	}
	r.members = &Members{
		Want: func(key string) bool { return key == "usage" },
		Found: func(key string, value []byte) {
			if key == "usage" {
				r.take(value)
			}
		},
	}
	return r
}

// Pass reads the next piece of the body and returns what goes to the client now.
func (r *Response) Pass(piece []byte) []byte {
	if r.stream != nil {
		return r.stream.pass(piece)
	}
	r.members.Write(piece)
	return piece
}

// Rest returns what was kept back, once the body has ended.
func (r *Response) Rest() []byte {
	if r.stream == nil {
		return nil
	}
	return r.stream.rest()
}

// Usage returns the engine's count, and whether there was one.
func (r *Response) Usage() (Usage, bool) { return r.usage, r.hasUsage }

// Tokens returns about how many tokens of a stream have passed: engines send one in each event, other
// providers many, which are counted by their text.
func (r *Response) Tokens() int64 {
	return max(r.events, (r.bytes-bytesBeside*r.events)/bytesPerToken)
}

// bytesBeside is about what an event has beside its text: id, time, model and the names of its fields.
const bytesBeside = 200

func (r *Response) take(raw []byte) {
	var counts *struct {
		PromptTokens     int64 `json:"prompt_tokens"`
		CompletionTokens int64 `json:"completion_tokens"`
		InputTokens      int64 `json:"input_tokens"`
		OutputTokens     int64 `json:"output_tokens"`
		TotalTokens      int64 `json:"total_tokens"`
		CacheRead        int64 `json:"cache_read_input_tokens"`
		PromptDetails    struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		InputDetails struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
	}
	if err := json.Unmarshal(raw, &counts); err != nil || counts == nil {
		return
	}
	prompt := max(counts.PromptTokens, counts.InputTokens)
	completion := max(counts.CompletionTokens, counts.OutputTokens)
	if prompt == 0 && completion == 0 {
		prompt = counts.TotalTokens // rerankers report nothing else
	} else {
		completion = max(completion, counts.TotalTokens-prompt) // thoughts can be in the sum alone
	}
	cached := max(counts.PromptDetails.Cached, counts.InputDetails.Cached, counts.CacheRead)
	// a stream can report several times, and each report is the sum so far
	r.usage.Prompt = max(r.usage.Prompt, prompt)
	r.usage.Completion = max(r.usage.Completion, completion)
	r.usage.Cached = max(r.usage.Cached, cached)
	r.hasUsage = true
}

// event reads the data of one event and returns whether it carries nothing but usage.
func (r *Response) event(data []byte) bool {
	if bytes.Equal(data, []byte("[DONE]")) || len(data) == 0 {
		return false
	}
	if !bytes.Contains(data, []byte(`"usage"`)) {
		r.part(data)
		return false
	}
	var body struct {
		Choices  *[]json.RawMessage `json:"choices"`
		Usage    json.RawMessage    `json:"usage"`
		Response struct {
			Usage json.RawMessage `json:"usage"`
		} `json:"response"`
		Message struct {
			Usage json.RawMessage `json:"usage"`
		} `json:"message"`
	}
	if err := json.Unmarshal(data, &body); err != nil {
		r.part(data)
		return false
	}
	for _, usage := range []json.RawMessage{body.Usage, body.Response.Usage, body.Message.Usage} {
		if len(usage) > 0 {
			r.take(usage)
		}
	}
	isUsageOnly := body.Choices != nil && len(*body.Choices) == 0 && len(body.Usage) > 0
	if !isUsageOnly {
		r.part(data)
	}
	return isUsageOnly
}

func (r *Response) part(data []byte) {
	r.events++
	r.bytes += int64(len(data))
}
