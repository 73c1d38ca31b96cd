package openai

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

type replayed struct {
	ID      string         `json:"id"`
	Object  string         `json:"object"`
	Created int64          `json:"created"`
	Model   string         `json:"model"`
	Choices []replayChoice `json:"choices"`
	Usage   *replayUsage   `json:"usage,omitempty"`
}

type replayChoice struct {
	Index   int            `json:"index"`
	Message *replayMessage `json:"message,omitempty"`
	Delta   *replayMessage `json:"delta,omitempty"`
	Finish  *string        `json:"finish_reason"`
}

type replayMessage struct {
	Role    string `json:"role,omitempty"`
	Content string `json:"content,omitempty"`
}

type replayUsage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
}

// Replay returns the body of a response to a chat request from a cached text, as a whole or as a
// stream, and its content type.
//
// The usage is that of the original request, because OpenAI's format has no field for cached responses.
func Replay(request Request, answer string, used Usage, now time.Time) (body []byte, contentType string) {
	stop := "stop"
	made := replayed{
		ID: "chatcmpl-" + uuid.NewString(), Object: "chat.completion", Created: now.Unix(), Model: request.Model,
	}
	usage := &replayUsage{Prompt: used.Prompt, Completion: used.Completion, Total: used.Prompt + used.Completion}
	if !request.Stream {
		made.Choices = []replayChoice{{Message: &replayMessage{Role: "assistant", Content: answer}, Finish: &stop}}
		made.Usage = usage
		return marshalled(made), "application/json"
	}
	made.Object = "chat.completion.chunk"
	var events bytes.Buffer
	send := func(choices []replayChoice, usage *replayUsage) {
		made.Choices, made.Usage = choices, usage
		events.WriteString("data: ")
		events.Write(marshalled(made))
		events.WriteString("\n\n")
	}
	send([]replayChoice{{Delta: &replayMessage{Role: "assistant", Content: answer}}}, nil)
	send([]replayChoice{{Delta: &replayMessage{}, Finish: &stop}}, nil)
	if request.Usage.Include {
		send([]replayChoice{}, usage)
	}
	events.WriteString("data: [DONE]\n\n")
	return events.Bytes(), "text/event-stream; charset=utf-8"
}

func marshalled(value any) []byte {
	var made bytes.Buffer
	encoder := json.NewEncoder(&made)
	encoder.SetEscapeHTML(false) // escaping would make some characters six times as long
	if err := encoder.Encode(value); err != nil {
		panic(err) // cannot happen: only numbers and strings
	}
	return bytes.TrimSuffix(made.Bytes(), []byte("\n"))
}
