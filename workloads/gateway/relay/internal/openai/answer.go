package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"

	"gke-inference/gateway/internal/tokens"
)

const (
	largestEvent = 4 << 20
	largestRead  = 8 << 20
)

// ErrStalled is the error of a stream whose target sent nothing for too long.
var ErrStalled = errors.New("the target sent nothing for too long")

// stalledEvents end a stream with an error, in OpenAI's form.
func stalledEvents() []byte {
	body := Failed(http.StatusGatewayTimeout, "backend_timeout", "The model's backend sent nothing for too long. Retry the request.").Body()
	return slices.Concat([]byte("\n\ndata: "), body, []byte("\n\ndata: [DONE]\n\n"))
}

// Usage is the tokens of a request and its response.
type Usage struct {
	Input, Output int64
	// IsGuess is set if the backend did not report them.
	IsGuess bool
}

type reported struct {
	Usage *struct {
		Input       int64 `json:"prompt_tokens"`
		Output      int64 `json:"completion_tokens"`
		InputOfNew  int64 `json:"input_tokens"`
		OutputOfNew int64 `json:"output_tokens"`
		Total       int64 `json:"total_tokens"`
	} `json:"usage"`
	Choices *[]json.RawMessage `json:"choices"`
}

func (r *reported) usage() *Usage {
	if r.Usage == nil {
		return nil
	}
	input, output := r.Usage.Input+r.Usage.InputOfNew, r.Usage.Output+r.Usage.OutputOfNew
	// some providers count reasoning tokens only in the total
	return &Usage{Input: max(0, input), Output: max(0, output, r.Usage.Total-input)}
}

// Stream passes a stream of events, reads its usage, and removes the event with only the usage if the
// client did not request it. The end function is called once, with the usage of the response.
type Stream struct {
	body    io.ReadCloser
	reader  *bufio.Reader
	strips  bool
	size    tokens.Size
	end     func(Usage)
	ended   sync.Once
	pending []byte
	event   []byte
	texts   tokens.Stream
	found   *Usage
	running tokens.Running
	err     error
}

// NewStream returns the stream of a request.
func NewStream(body io.ReadCloser, request *Request, strips bool, end func(Usage)) *Stream {
	return &Stream{
		body: body, reader: bufio.NewReaderSize(body, 64<<10), strips: strips, end: end,
		size: request.Size, running: tokens.Running{Answers: request.Size.Choices},
	}
}

// Read returns whole events.
func (s *Stream) Read(into []byte) (int, error) {
	for len(s.pending) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.next()
	}
	n := copy(into, s.pending)
	s.pending = s.pending[n:]
	return n, nil
}

// next reads a line. An empty line ends an event.
func (s *Stream) next() {
	line, err := s.reader.ReadSlice('\n')
	s.event = append(s.event, line...)
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		if len(s.event) > largestEvent {
			s.pass()
		}
		return
	case errors.Is(err, ErrStalled):
		s.err = io.EOF // the client gets the error as an event
		s.flush()
		s.pending = append(s.pending, stalledEvents()...)
		return
	case err != nil:
		s.err = err
		s.flush()
		return
	}
	if len(bytes.TrimRight(line, "\r\n")) == 0 || len(s.event) > largestEvent {
		s.flush()
	}
}

func (s *Stream) flush() {
	if !s.isOnlyUsage() || !s.strips {
		s.pass()
		return
	}
	s.event = s.event[:0]
}

func (s *Stream) pass() {
	s.pending = append(s.pending[:0:0], s.event...)
	s.event = s.event[:0]
}

func (s *Stream) isOnlyUsage() bool {
	data := dataOf(s.event)
	if len(data) == 0 || data[0] != '{' {
		return false
	}
	var found reported
	if json.Unmarshal(data, &found) != nil {
		return false
	}
	s.texts.Add(data)
	used := found.usage()
	if used == nil {
		return false
	}
	if found.Choices != nil && len(*found.Choices) > 0 {
		s.running.Take(indexOf((*found.Choices)[0]), tokens.Usage{Prompt: used.Input, Completion: used.Output})
		return false
	}
	s.found = used
	return found.Choices != nil
}

// indexOf returns the number of a choice.
func indexOf(choice json.RawMessage) int64 {
	var found struct {
		Index int64 `json:"index"`
	}
	_ = json.Unmarshal(choice, &found) // 0 if it has none
	return found.Index
}

func dataOf(event []byte) []byte {
	for line := range bytes.Lines(event) {
		if data, is := bytes.CutPrefix(line, []byte("data:")); is {
			return bytes.TrimSpace(data)
		}
	}
	return nil
}

// Close ends the stream.
func (s *Stream) Close() error {
	s.ended.Do(func() {
		if s.found != nil {
			s.end(*s.found)
			return
		}
		if s.running.Has() {
			total := s.running.Total()
			s.end(Usage{Input: total.Prompt, Output: total.Completion})
			return
		}
		s.end(Usage{Input: s.size.Prompt, Output: min(s.texts.Tokens(), s.size.MostAnswer), IsGuess: true})
	})
	return s.body.Close()
}

// Whole passes a response that is not a stream, and reads its usage at the end.
type Whole struct {
	body    io.ReadCloser
	request *Request
	end     func(Usage)
	ended   sync.Once
	read    []byte
}

// NewWhole returns the response of a request.
func NewWhole(body io.ReadCloser, request *Request, end func(Usage)) *Whole {
	return &Whole{body: body, request: request, end: end}
}

// Read passes bytes.
func (w *Whole) Read(into []byte) (int, error) {
	n, err := w.body.Read(into)
	if len(w.read)+n <= largestRead {
		w.read = append(w.read, into[:n]...)
	}
	return n, err
}

// Close ends the response.
func (w *Whole) Close() error {
	w.ended.Do(func() {
		var found reported
		if json.Unmarshal(w.read, &found) == nil && found.Usage != nil {
			w.end(*found.usage())
			return
		}
		// the backend has generated, and may charge for, all of an answer that was not read to its end
		output, isWhole := tokens.OfAnswer(w.read)
		if !isWhole {
			output = w.request.Size.MostAnswer
		}
		w.end(Usage{Input: w.request.Size.Prompt, Output: output, IsGuess: true})
	})
	return w.body.Close()
}
