package openai

import (
	"bytes"
	"encoding/json"

	"gke-inference/gateway/internal/members"
	"gke-inference/gateway/internal/tokens"
)

// Usage is the usage of a request, as counted by the engine.
type Usage struct {
	Prompt     int64
	Cached     int64
	Completion int64
}

// Response reads a response as it passes.
type Response struct {
	usage    Usage
	hasUsage bool
	texts    tokens.Stream
	members  *members.Reader
	stream   *events
}

// NewResponse returns a reader for one response.
//
// hideUsage removes the event with only the usage. Engines that always report usage send this event
// also to clients that did not request it, and many of those read the first choice of each event
// without a check.
func NewResponse(isStream, hideUsage bool) *Response {
	r := &Response{}
	if isStream {
		r.stream = &events{hideUsage: hideUsage, found: r.event}
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

// Usage returns the engine's count, and whether there is one. Without one, the count of the prompt can be known.
func (r *Response) Usage() (Usage, bool) { return r.usage, r.hasUsage }

// Tokens returns the estimated number of tokens of a stream so far.
func (r *Response) Tokens() int64 { return r.texts.Tokens() }

func (r *Response) take(raw []byte) {
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
		return
	}
	// Anthropic's input tokens are those that were neither read from a cache nor written to one
	// (vLLM 0.32.0, entrypoints/anthropic/serving.py, `_build_anthropic_usage`)
	prompt := max(counts.PromptTokens, counts.InputTokens+counts.CacheRead+counts.CacheWritten)
	completion := max(counts.CompletionTokens, counts.OutputTokens)
	if prompt == 0 && completion == 0 {
		prompt = counts.TotalTokens // rerankers report nothing else
	} else {
		completion = max(completion, counts.TotalTokens-prompt) // reasoning tokens can be only in the total
	}
	cached := max(counts.PromptDetails.Cached, counts.InputDetails.Cached, counts.CacheRead)
	// a stream can report several times; each report is the total so far
	r.usage.Prompt = max(r.usage.Prompt, prompt)
	r.usage.Completion = max(r.usage.Completion, completion)
	r.usage.Cached = max(r.usage.Cached, cached)
	r.hasUsage = true
}

// event reads the data of one event and reports whether it contains only usage.
func (r *Response) event(data []byte) bool {
	if bytes.Equal(data, []byte("[DONE]")) || len(data) == 0 {
		return false
	}
	if !bytes.Contains(data, []byte(`"usage"`)) {
		r.texts.Add(data)
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
		r.texts.Add(data)
		return false
	}
	for _, usage := range []json.RawMessage{body.Usage, body.Response.Usage} {
		if len(usage) > 0 {
			r.take(usage)
		}
	}
	if has := r.hasUsage; len(body.Message.Usage) > 0 { // the first event of a message: that of its prompt
		r.take(body.Message.Usage)
		r.hasUsage = has
	}
	isUsageOnly := body.Choices != nil && len(*body.Choices) == 0 && len(body.Usage) > 0
	if !isUsageOnly {
		r.texts.Add(data)
	}
	return isUsageOnly
}
