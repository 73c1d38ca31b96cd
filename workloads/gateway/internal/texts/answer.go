package texts

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"

	"gke-inference/gateway/internal/jsonwalk"
	"gke-inference/gateway/internal/paths"
)

// Answer returns every text of a whole response, in order, and false if no guard can read it.
func Answer(path string, body []byte) ([]Text, bool) {
	cursor, isValid := jsonwalk.New(body)
	if !isValid || cursor.Kind() != '{' {
		return nil, false
	}
	w := walk{Cursor: cursor, answers: true}
	cursor.Object(func(key jsonwalk.Span) {
		name := w.Text(key)
		switch {
		case (name == "model" || name == "system_fingerprint") && w.isOneWord():
			w.Skip()
		case path == paths.Embeddings && name == "data":
			w.vectors()
		default:
			w.member(key)
		}
	})
	for at := range w.found {
		w.found[at].Role = "assistant"
	}
	return w.found, w.refused == nil
}

// vectors reads embeddings, which can be in base64.
func (w *walk) vectors() {
	if w.Kind() != '[' {
		w.value("data")
		return
	}
	w.List(func(int) {
		if w.Kind() != '{' {
			w.value("data")
			return
		}
		w.Object(func(key jsonwalk.Span) {
			w.name(key)
			before := *w.Cursor
			if span := w.Skip(); w.Text(key) == "embedding" && w.isVector(span) {
				return
			}
			*w.Cursor = before
			w.value(w.Text(key))
		})
	})
}

// isVector reports whether a value is a text in base64 that has a whole number of floats.
func (w *walk) isVector(span jsonwalk.Span) bool {
	if w.Raw(span)[0] != '"' {
		return false
	}
	content := w.Text(span)
	return len(content)%4 == 0 && !strings.ContainsFunc(content, isNotBase64)
}

// id is the form of the IDs that engines make; some models choose those of calls themselves.
var id = regexp.MustCompile(`^[a-z]{2,12}(-tool)?[-_][A-Za-z]{0,4}_?[0-9a-fA-F-]{8,64}$`)

// isID reports whether a text is an ID of an engine, which no model wrote.
func isID(key, content string) bool {
	return (key == "id" || key == "call_id" || key == "item_id") && id.MatchString(content)
}

// isOneWord reports whether the value is a short text without spaces, without reading it.
func (w *walk) isOneWord() bool {
	before := *w.Cursor
	raw := w.Raw(w.Skip())
	*w.Cursor = before
	return len(raw) <= 200 && !bytes.ContainsAny(raw, " \t\r\n\\")
}

// Splice returns a body with replaced texts, and false if one of them cannot be replaced. All other bytes
// stay the same.
func Splice(body []byte, found []Text, contents []string) ([]byte, bool) {
	var made []byte
	last := 0
	for at, one := range found {
		if one.Content == contents[at] {
			continue
		}
		if one.isFixed {
			return nil, false
		}
		made = append(made, body[last:one.at.Start]...)
		if one.delimiter == "" {
			made = append(made, quoted(contents[at])...)
		} else {
			// the line break before a content belongs to its delimiter, if it begins like one
			if strings.Contains("\r\n"+contents[at], one.delimiter) {
				return nil, false
			}
			made = append(made, contents[at]...)
		}
		last = one.at.End
	}
	if last == 0 {
		return body, true
	}
	return append(made, body[last:]...), true
}

func quoted(content string) []byte {
	var made bytes.Buffer
	encoder := json.NewEncoder(&made)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(content) != nil { // strings can always be encoded
		return []byte(`""`)
	}
	return bytes.TrimSuffix(made.Bytes(), []byte("\n"))
}

// usage has the numbers of a response, which are all that a filtered one keeps.
type usage struct {
	PromptTokens     *int64 `json:"prompt_tokens,omitempty"`
	CompletionTokens *int64 `json:"completion_tokens,omitempty"`
	TotalTokens      *int64 `json:"total_tokens,omitempty"`
	InputTokens      *int64 `json:"input_tokens,omitempty"`
	OutputTokens     *int64 `json:"output_tokens,omitempty"`
}

// Filtered returns a response that a guard blocks. Of the engine's response it has only the number of
// choices and of tokens: every text is new.
func Filtered(path, model string, body []byte, now time.Time) []byte {
	var read struct {
		Choices []struct{} `json:"choices"`
		Usage   usage      `json:"usage"`
	}
	// another shape leaves both empty
	_ = json.Unmarshal(body, &read)
	made := map[string]any{"model": model, "usage": read.Usage}
	fresh := strings.ReplaceAll(uuid.NewString(), "-", "")
	switch path {
	case paths.Chats, paths.Completions:
		made["id"], made["object"] = "chatcmpl-"+fresh, "chat.completion"
		said := func(choice map[string]any) {
			choice["message"] = map[string]any{"role": "assistant", "content": ""}
		}
		if path == paths.Completions {
			made["id"], made["object"] = "cmpl-"+fresh, "text_completion"
			said = func(choice map[string]any) { choice["text"] = "" }
		}
		choices := []any{}
		for at := range max(1, len(read.Choices)) {
			choice := map[string]any{"index": at, "finish_reason": ContentFilter, "logprobs": nil}
			said(choice)
			choices = append(choices, choice)
		}
		made["created"], made["choices"] = now.Unix(), choices
	case paths.Responses:
		made["id"], made["object"], made["created_at"] = "resp_"+fresh, "response", now.Unix()
		made["status"], made["incomplete_details"] = "incomplete", map[string]any{"reason": ContentFilter}
		made["output"], made["error"] = []any{}, nil
		made["tools"], made["tool_choice"], made["parallel_tool_calls"] = []any{}, "auto", true
	case paths.Messages:
		made["id"], made["type"], made["role"] = "msg_"+fresh, "message", "assistant"
		made["content"], made["stop_reason"], made["stop_sequence"] = []any{}, "refusal", nil
	case paths.Rerank:
		made["id"], made["results"] = "rerank-"+fresh, []any{}
	default:
		made["object"], made["created"], made["data"] = "list", now.Unix(), []any{}
	}
	return encoded(made)
}

// ContentFilter is OpenAI's finish reason for filtered content.
const ContentFilter = "content_filter"

func encoded(value any) []byte {
	var made bytes.Buffer
	encoder := json.NewEncoder(&made)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(value) != nil { // only numbers, strings, and what was decoded from JSON
		return []byte("{}")
	}
	return bytes.TrimSuffix(made.Bytes(), []byte("\n"))
}
