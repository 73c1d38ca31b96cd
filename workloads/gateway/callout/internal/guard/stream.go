package guard

import (
	"bytes"
	"context"
	"slices"

	"gke-inference/gateway/callout/internal/openai"
)

const maxEventBytes = 1 << 20

// parts are the texts of a stream that grow.
type parts interface {
	IsDue() bool
	Held(which openai.Which) []string
	Release(which openai.Which, clean []string) []byte
}

// Stream checks a streamed response in windows. A text passes after the check
// of its window. The last part of each window stays for the next one, so that patterns across a
// boundary are found.
type Stream struct {
	checks *Checks
	ctx    context.Context //nolint:containedctx // the context of the request that the stream belongs to
	line   []byte
	event  []byte
	data   []byte
	hasOne bool
	path   string
	// chunks are those of chats and completions, typed those of messages and responses; parts are either.
	chunks *openai.Chunks
	typed  *openai.Typed
	parts  parts
	// checked are the texts that events of typed had, with what guards made of them.
	checked map[string]string
	ended   bool
}

// NewStream returns the checks for one response.
func NewStream(ctx context.Context, path string, checks *Checks) *Stream {
	made := &Stream{checks: checks, ctx: ctx, path: path}
	if openai.IsTyped(path) {
		made.typed, made.checked = openai.NewTyped(path), map[string]string{}
		made.parts = made.typed
	} else {
		made.chunks = openai.NewChunks()
		made.parts = made.chunks
	}
	return made
}

// Pass takes the next piece of the stream and returns the bytes to send to the client now.
func (s *Stream) Pass(piece []byte) []byte {
	var out []byte
	for len(piece) > 0 && !s.ended {
		end := bytes.IndexByte(piece, '\n')
		if end < 0 {
			s.line = append(s.line, piece...)
			break
		}
		s.line = append(s.line, piece[:end+1]...)
		piece = piece[end+1:]
		out = s.endLine(out)
		// after each event: otherwise, a piece with several events would be blocked as a whole, with
		// its clean texts
		if !s.ended && s.parts.IsDue() {
			out = s.release(out, openai.DueChoices)
		}
	}
	if len(s.line)+len(s.event) > maxEventBytes && !s.ended {
		out = s.unreadable(out)
	}
	return out
}

// Rest returns the held bytes after the end of the stream.
func (s *Stream) Rest() []byte {
	if s.ended {
		return nil
	}
	var out []byte
	if len(s.line) > 0 {
		s.line = append(s.line, '\n')
		out = s.endLine(out)
	}
	if s.hasOne && !s.ended {
		out = s.endEvent(out)
	}
	if !s.ended {
		out = s.release(out, openai.AllChoices)
	}
	return out
}

func (s *Stream) endLine(out []byte) []byte {
	line := bytes.TrimRight(s.line, "\r\n")
	s.event = append(s.event, s.line...)
	s.line = s.line[:0]
	if data, isData := bytes.CutPrefix(line, []byte("data:")); isData {
		if s.hasOne {
			s.data = append(s.data, '\n')
		}
		s.data, s.hasOne = append(s.data, bytes.TrimPrefix(data, []byte(" "))...), true
	}
	if len(line) > 0 {
		return out
	}
	return s.endEvent(out)
}

func (s *Stream) endEvent(out []byte) []byte {
	event, data, hasOne := s.event, s.data, s.hasOne
	s.event, s.data, s.hasOne = nil, nil, false
	if !hasOne {
		return append(out, event...) // a keep-alive comment
	}
	if isDone(data) {
		out = s.release(out, openai.AllChoices)
		if s.ended {
			return out
		}
		return append(out, event...)
	}
	if s.typed != nil {
		return s.endTypedEvent(out, event, data)
	}
	kind := s.chunks.Take(data)
	switch kind {
	case openai.ChunkUnreadable:
		s.event = event
		return s.unreadable(out)
	case openai.ChunkHeld:
		return out
	case openai.ChunkEndsChoices:
		out = s.release(out, openai.EndingChoices)
	case openai.ChunkOther:
		if s.chunks.EndsStream() {
			out = s.release(out, openai.AllChoices)
		}
	}
	if s.ended {
		return out
	}
	if out = s.checkLoose(out); s.ended {
		return out
	}
	return append(out, s.chunks.Others()...)
}

// checkLoose checks the names in an event. They cannot be masked: a text that a guard changes blocks.
func (s *Stream) checkLoose(out []byte) []byte {
	loose := s.chunks.Loose()
	asked := make([]Text, len(loose))
	for at, content := range loose {
		asked[at] = Text{Role: "assistant", Content: content}
	}
	clean, block, err := s.checks.Check(s.ctx, asked)
	if err != nil {
		return s.end(out, s.failed(awayText))
	}
	if block != nil || !slices.Equal(contentsOf(clean), loose) {
		return s.end(out, s.filtered())
	}
	return out
}

// unreadable passes an event that no guard can check, if every guard fails open.
func (s *Stream) unreadable(out []byte) []byte {
	if s.checks.Unchecked() != nil {
		return s.end(out, s.failed(unreadableText))
	}
	out = append(append(out, s.event...), s.line...)
	s.event, s.line, s.data, s.hasOne = nil, nil, nil, false
	return out
}

// release checks what is held and appends what is clean.
func (s *Stream) release(out []byte, which openai.Which) []byte {
	held := s.parts.Held(which)
	if len(held) == 0 {
		return out
	}
	texts := make([]Text, len(held))
	for at, content := range held {
		texts[at] = Text{Role: "assistant", Content: content}
	}
	clean, block, err := s.checks.Check(s.ctx, texts)
	if err != nil {
		return s.end(out, s.failed(awayText))
	}
	if block != nil {
		return s.end(out, s.filtered())
	}
	return append(out, s.parts.Release(which, contentsOf(clean))...)
}

// Fail finishes the client's stream with an error, and returns its last events. What no guard has checked is dropped.
func (s *Stream) Fail(message string) []byte {
	if s.ended {
		return nil
	}
	return s.end(nil, s.failed(message))
}

// end finishes the client's stream. The rest of the engine's stream is read only for its usage.
func (s *Stream) end(out, last []byte) []byte {
	s.ended = true
	s.line, s.event, s.data = nil, nil, nil
	out = append(out, last...)
	if s.typed != nil {
		return out
	}
	return append(out, []byte("data: "+openai.Done+"\n\n")...)
}
