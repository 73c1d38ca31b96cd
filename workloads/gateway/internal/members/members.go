// Package members reads the members of a JSON object while it passes.
package members

import (
	"encoding/json"
)

const (
	maxKeyBytes   = 1 << 10
	maxValueBytes = 1 << 16
)

// Reader finds the members of a JSON document's top-level object as the document passes, in pieces of
// any size and without storing them. It tracks only strings and brackets: malformed JSON results in
// members that cannot be parsed, never in an error.
type Reader struct {
	// Want reports whether to keep the value of a key. The key is unescaped.
	Want func(key string) bool
	// Found receives each member in order; value is nil if it was not wanted or is larger than 64 KiB.
	Found func(key string, value []byte)

	depth     int
	inString  bool
	escaped   bool
	isObject  bool
	expectKey bool
	inKey     bool
	hasKey    bool
	keep      bool
	key       []byte
	value     []byte
	name      string
}

// Write takes the next piece of the document.
func (m *Reader) Write(piece []byte) {
	for _, c := range piece {
		if m.inString {
			m.stringByte(c)
			continue
		}
		m.plainByte(c)
	}
}

func (m *Reader) stringByte(c byte) {
	if m.inKey {
		if len(m.key) < maxKeyBytes {
			m.key = append(m.key, c)
		}
	} else if m.keep {
		m.keepByte(c)
	}
	switch {
	case m.escaped:
		m.escaped = false
	case c == '\\':
		m.escaped = true
	case c == '"':
		m.inString = false
		if m.inKey {
			m.inKey, m.hasKey = false, true
			m.name = unescaped(m.key)
		}
	}
}

func (m *Reader) plainByte(c byte) {
	switch c {
	case '"':
		m.inString = true
		if m.depth == 1 && m.expectKey {
			m.inKey, m.expectKey = true, false
			m.key = append(m.key[:0], c)
			return
		}
	case '{', '[':
		m.depth++
		if m.depth == 1 {
			m.isObject = c == '{'
			m.expectKey = m.isObject
			return
		}
	case '}', ']':
		m.depth--
		if m.depth == 0 {
			m.endMember()
			return
		}
	case ',':
		if m.depth == 1 && m.isObject {
			m.endMember()
			m.expectKey = true
			return
		}
	case ':':
		if m.depth == 1 && m.hasKey {
			m.keep = m.Want(m.name)
			m.value = m.value[:0]
			return
		}
	}
	if m.keep {
		m.keepByte(c)
	}
}

func (m *Reader) keepByte(c byte) {
	if len(m.value) > maxValueBytes {
		return
	}
	m.value = append(m.value, c)
}

func (m *Reader) endMember() {
	if !m.hasKey {
		return
	}
	var value []byte
	if m.keep && len(m.value) <= maxValueBytes {
		value = m.value
	}
	m.hasKey, m.keep = false, false
	m.Found(m.name, value)
}

func unescaped(quoted []byte) string {
	var key string
	if err := json.Unmarshal(quoted, &key); err != nil {
		return string(quoted)
	}
	return key
}
