package openai

import "bytes"

const maxEventBytes = 1 << 20

// events splits a stream of server-sent events. Without changes, a stream passes in the pieces in which it
// arrives. Otherwise, an event passes after its last line, which engines send at once.
type events struct {
	// changes is whether found decides what passes: kept in place of the data, or nothing of the event.
	changes bool
	found   func(data []byte) (kept []byte, hides bool)

	line      []byte
	held      []byte
	hide      bool
	oversized bool
}

func (e *events) pass(piece []byte) []byte {
	if !e.changes {
		e.read(piece, nil)
		return piece
	}
	out := make([]byte, 0, len(piece)+len(e.held))
	e.read(piece, &out)
	return out
}

func (e *events) rest() []byte {
	if len(e.line) > 0 {
		e.endLine(nil)
	}
	if e.hide {
		return nil
	}
	return e.held
}

func (e *events) read(piece []byte, out *[]byte) {
	for len(piece) > 0 {
		end := bytes.IndexByte(piece, '\n')
		part := piece
		if end >= 0 {
			part = piece[:end+1]
		}
		e.keep(part, out)
		if end >= 0 {
			e.endLine(out)
		}
		piece = piece[len(part):]
	}
}

// keep holds an event. If it is too large to hold, it passes as it arrives and is not read.
func (e *events) keep(part []byte, out *[]byte) {
	if !e.oversized && len(e.line)+len(part) > maxEventBytes {
		e.oversized = true
	}
	if e.oversized {
		e.line = e.line[:0]
	} else {
		e.line = append(e.line, part...)
	}
	if out == nil {
		return
	}
	e.held = append(e.held, part...)
	if e.oversized {
		e.flush(out)
	}
}

func (e *events) endLine(out *[]byte) {
	line := bytes.TrimRight(e.line, "\r\n")
	isBlank := len(line) == 0 && !e.oversized
	if data, isData := bytes.CutPrefix(line, []byte("data:")); isData {
		e.replace(bytes.TrimSpace(data), out != nil)
	}
	e.line, e.oversized = e.line[:0], false
	if out == nil || !isBlank {
		return
	}
	if e.hide {
		e.held = e.held[:0]
	}
	e.flush(out)
	e.hide = false
}

// replace shows the data of a line to its reader, and holds what shall pass in its place.
func (e *events) replace(data []byte, isHeld bool) {
	kept, hides := e.found(data)
	if e.hide = e.hide || hides; e.hide || !isHeld || bytes.Equal(kept, data) {
		return
	}
	e.held = append(e.held[:len(e.held)-len(e.line)], "data: "...)
	e.held = append(append(e.held, kept...), '\n')
}

func (e *events) flush(out *[]byte) {
	*out = append(*out, e.held...)
	e.held = e.held[:0]
}
