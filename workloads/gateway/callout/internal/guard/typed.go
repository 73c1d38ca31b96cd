package guard

import (
	"bytes"
	"encoding/json"
	"time"

	"gke-inference/gateway/callout/internal/openai"
	"gke-inference/gateway/internal/texts"
)

// Messages of streams that end because of a guard.
const (
	awayText       = "A guardrail of this model cannot be reached at the moment."
	unreadableText = "A guardrail of this model could not read the response."
	engineText     = "The engine ended the response with an error."
)

// endTypedEvent passes an event of messages or responses. Texts that grow wait for their window; an event that is not
// a part of one comes after all of them, and every text in it is checked: the last events repeat whole texts.
func (s *Stream) endTypedEvent(out, event, data []byte) []byte {
	if typeOf(data) == "ping" { // it can come inside a text, whose parts are checked together
		return append(out, ping...)
	}
	isHeld, isKnown := s.typed.Take(data)
	switch {
	case !isKnown:
		s.event = event
		return s.unreadable(out)
	case isHeld:
		return out
	}
	if out = s.release(out, openai.AllChoices); s.ended {
		return out
	}
	if kind := typeOf(data); kind == "error" || kind == "response.failed" { // its message can quote texts
		return s.end(out, s.typed.Failed(engineText))
	}
	found, isReadable := texts.Answer(s.path, data)
	if !isReadable {
		s.event = event
		return s.unreadable(out)
	}
	clean, block, err := s.checkOnce(found)
	if err != nil {
		return s.end(out, s.failed(awayText))
	}
	spliced, canReplace := data, false
	if block == nil {
		spliced, canReplace = texts.Splice(data, found, clean)
	}
	if !canReplace {
		return s.end(out, s.filtered())
	}
	return append(out, s.typed.Event(spliced)...)
}

// ping is an event that keeps a connection open.
const ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n"

// typeOf returns the type of an event; empty for what is no event.
func typeOf(data []byte) string {
	var event struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(data, &event) != nil {
		return ""
	}
	return event.Type
}

// checkOnce checks the texts of an event that no earlier event had: a stream of responses repeats each text four
// times, and the fields of its request three times.
func (s *Stream) checkOnce(found []texts.Text) ([]string, *Block, error) {
	var fresh []Text
	for _, one := range found {
		if _, isKnown := s.checked[one.Content]; !isKnown {
			fresh = append(fresh, Text{"assistant", one.Content})
		}
	}
	clean, block, err := s.checks.Check(s.ctx, fresh)
	if block != nil || err != nil {
		return nil, block, err
	}
	for at, one := range fresh {
		s.checked[one.Content] = clean[at].Content
	}
	all := make([]string, len(found))
	for at, one := range found {
		all[at] = s.checked[one.Content]
	}
	return all, nil, nil
}

// filtered returns the last events of a stream that a guard blocks.
func (s *Stream) filtered() []byte {
	if s.typed == nil {
		return s.chunks.Filtered()
	}
	return s.typed.Filtered(texts.Filtered(s.path, s.checks.Model, nil, time.Now()))
}

// failed returns the event of an error.
func (s *Stream) failed(message string) []byte {
	if s.typed == nil {
		return openai.StreamError(message)
	}
	return s.typed.Failed(message)
}

// isDone reports whether data is the end of a stream of chats, which some engines also send after other streams.
func isDone(data []byte) bool { return string(bytes.TrimSpace(data)) == openai.Done }
