// Package reading checks a JSON object while it passes, without a tree and without a copy of it.
package reading

import (
	"encoding/json"
	"unicode/utf8"
)

const (
	// MaxDepth is the maximum depth of brackets.
	MaxDepth = 512
	// maxKeyBytes and maxValueBytes limit what is kept of one member.
	maxKeyBytes   = 1 << 10
	maxValueBytes = 1 << 10
	// exact is the largest whole number that a 64-bit float holds with all smaller ones.
	exact = 1 << 53
)

// Member is a member of the top-level object.
type Member struct {
	Name string
	// Value is its text, or what fits of it into 1 KiB.
	Value []byte
	// IsWhole is whether Value has all of it.
	IsWhole bool
	// IsInexact is whether it contains a whole number that 64-bit floats cannot hold.
	IsInexact bool
	// HasNumbers is whether it is a list with a number, or of lists with one.
	HasNumbers bool
}

type state int

const (
	start state = iota
	valueOrEnd
	value
	keyOrEnd
	key
	colon
	commaOrEnd
	inString
	inEscape
	inUnicode
	inNumber
	inWord
	end
	broken
)

// Reader checks one JSON object. Found receives each member of the top level, in order.
type Reader struct {
	Found func(Member)

	state   state
	stack   []byte // one bracket for each level
	isKey   bool
	left    int    // hexadecimal digits of an escape, or bytes of a character, that must follow
	word    string // the rest of true, false or null
	number  []byte
	name    []byte
	member  Member
	pending int // bytes of a UTF-8 character in a string
	rune    []byte
}

// Write takes the next piece of the document.
func (r *Reader) Write(piece []byte) {
	for _, c := range piece {
		if r.state == broken {
			return
		}
		r.byte(c)
	}
}

// IsComplete returns whether the document is one JSON object and nothing else.
func (r *Reader) IsComplete() bool { return r.state == end }

// IsBroken returns whether the document is no JSON object, whatever follows.
func (r *Reader) IsBroken() bool { return r.state == broken }

func (r *Reader) byte(c byte) {
	switch r.state {
	case inString, inEscape, inUnicode:
		r.keep(c)
		r.stringByte(c)
		return
	case inNumber:
		if isNumberByte(c) {
			r.number = append(r.number, c)
			if len(r.number) > maxKeyBytes {
				r.state = broken
			}
			r.keep(c)
			return
		}
		if !r.endNumber() {
			r.state = broken
			return
		}
	case inWord:
		r.keep(c)
		if r.word[0] != c {
			r.state = broken
			return
		}
		if r.word = r.word[1:]; r.word == "" {
			r.endValue()
		}
		return
	}
	if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
		return
	}
	r.plainByte(c)
}

func (r *Reader) plainByte(c byte) {
	switch r.state {
	case start:
		if c != '{' {
			r.state = broken
			return
		}
		r.open(c)
	case value, valueOrEnd:
		if c == ']' && r.state == valueOrEnd {
			r.close(c)
			return
		}
		r.startValue(c)
	case key, keyOrEnd:
		switch {
		case c == '"':
			r.isKey, r.state = true, inString
			if len(r.stack) == 1 {
				r.name = append(r.name[:0], c)
			}
		case c == '}' && r.state == keyOrEnd:
			r.close(c)
		default:
			r.state = broken
		}
	case colon:
		if c != ':' {
			r.state = broken
			return
		}
		if len(r.stack) == 1 {
			r.member = Member{Name: unescaped(r.name), Value: r.member.Value[:0], IsWhole: true}
		} else {
			r.keep(c)
		}
		r.state = value
	case commaOrEnd:
		switch c {
		case ',':
			r.comma()
		case '}', ']':
			r.close(c)
		default:
			r.state = broken
		}
	default: // something follows the object
		r.state = broken
	}
}

func (r *Reader) comma() {
	if len(r.stack) == 1 {
		r.endMember()
	} else {
		r.keep(',')
	}
	if r.stack[len(r.stack)-1] == '{' {
		r.state = key
	} else {
		r.state = value
	}
}

func (r *Reader) open(c byte) {
	if len(r.stack) == MaxDepth {
		r.state = broken
		return
	}
	if len(r.stack) > 0 {
		r.keep(c)
	}
	r.stack = append(r.stack, c)
	if c == '{' {
		r.state = keyOrEnd
	} else {
		r.state = valueOrEnd
	}
}

func (r *Reader) close(c byte) {
	opened := r.stack[len(r.stack)-1]
	if (c == '}') != (opened == '{') {
		r.state = broken
		return
	}
	r.stack = r.stack[:len(r.stack)-1]
	if len(r.stack) == 0 {
		r.endMember()
		r.state = end
		return
	}
	r.keep(c)
	r.endValue()
}

func (r *Reader) startValue(c byte) {
	switch {
	case c == '{' || c == '[':
		r.open(c)
		return
	case c == '"':
		r.isKey, r.state = false, inString
	case c == 't':
		r.word, r.state = "rue", inWord
	case c == 'f':
		r.word, r.state = "alse", inWord
	case c == 'n':
		r.word, r.state = "ull", inWord
	case c == '-' || c >= '0' && c <= '9':
		r.noteNumber()
		r.number, r.state = append(r.number[:0], c), inNumber
	default:
		r.state = broken
		return
	}
	r.keep(c)
}

// noteNumber notes a number that is an item of a list, or of a list in a list.
func (r *Reader) noteNumber() {
	lists := len(r.stack) > 1
	for _, bracket := range r.stack[1:] {
		lists = lists && bracket == '['
	}
	r.member.HasNumbers = r.member.HasNumbers || lists
}

func (r *Reader) endValue() { r.state = commaOrEnd }

// endMember reports a member. The last one of an empty object has no name.
func (r *Reader) endMember() {
	if len(r.name) == 0 {
		return
	}
	r.Found(r.member)
	r.name = r.name[:0]
}

func (r *Reader) keep(c byte) {
	if r.isKey && (r.state == inString || r.state == inEscape || r.state == inUnicode) {
		if len(r.stack) == 1 {
			if len(r.name) < maxKeyBytes {
				r.name = append(r.name, c)
			}
			return
		}
	}
	if len(r.member.Value) == maxValueBytes {
		r.member.IsWhole = false
		return
	}
	r.member.Value = append(r.member.Value, c)
}

func (r *Reader) stringByte(c byte) {
	switch r.state {
	case inEscape:
		switch c {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			r.state = inString
		case 'u':
			r.left, r.state = 4, inUnicode
		default:
			r.state = broken
		}
	case inUnicode:
		isHex := c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
		if !isHex {
			r.state = broken
			return
		}
		if r.left--; r.left == 0 {
			r.state = inString
		}
	default:
		r.character(c)
	}
}

func (r *Reader) character(c byte) {
	if r.pending > 0 {
		if r.rune = append(r.rune, c); len(r.rune) == r.pending {
			if !utf8.Valid(r.rune) {
				r.state = broken
			}
			r.pending = 0
		}
		return
	}
	switch {
	case c == '\\':
		r.state = inEscape
	case c == '"':
		if r.isKey {
			r.state, r.isKey = colon, false
		} else {
			r.endValue()
		}
	case c < ' ':
		r.state = broken
	case c >= 0xf0:
		r.pending, r.rune = 4, append(r.rune[:0], c)
	case c >= 0xe0:
		r.pending, r.rune = 3, append(r.rune[:0], c)
	case c >= 0xc0:
		r.pending, r.rune = 2, append(r.rune[:0], c)
	case c >= utf8.RuneSelf:
		r.state = broken
	}
}

func isNumberByte(c byte) bool {
	return c >= '0' && c <= '9' || c == '.' || c == '-' || c == '+' || c|0x20 == 'e'
}

func (r *Reader) endNumber() bool {
	if !json.Valid(r.number) {
		return false
	}
	r.endValue()
	digits := r.number
	if digits[0] == '-' {
		digits = digits[1:]
	}
	var whole uint64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return true // a fraction or an exponent is a float already
		}
		whole = min(whole*10+uint64(c-'0'), 10*exact) // saturates, far below an overflow
	}
	r.member.IsInexact = r.member.IsInexact || whole > exact
	return true
}

func unescaped(quoted []byte) string {
	var name string
	if err := json.Unmarshal(quoted, &name); err != nil {
		return string(quoted)
	}
	return name
}
