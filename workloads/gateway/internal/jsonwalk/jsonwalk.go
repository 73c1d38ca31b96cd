// Package jsonwalk reads a valid JSON document in one pass, where it is: nothing is decoded or copied
// unless the caller asks for it.
package jsonwalk

import "encoding/json"

// Span is the position of a value or a key in a document, with the quotes of a string.
type Span struct{ Start, End int }

// Len returns the number of bytes.
func (s Span) Len() int { return s.End - s.Start }

// Cursor is a position in a document. Each call reads the whole value at the position.
type Cursor struct {
	doc []byte
	at  int
}

// New returns a cursor at the start of a document, and false if the document is not valid JSON.
func New(doc []byte) (*Cursor, bool) {
	return &Cursor{doc: doc}, json.Valid(doc) // Valid also limits the depth, and so the recursion
}

// Known returns a cursor at the start of a document that is known to be valid JSON.
func Known(doc []byte) *Cursor { return &Cursor{doc: doc} }

// Kind returns the first byte of the value at the cursor: one of `{["tfn` or, for a number, another one.
func (c *Cursor) Kind() byte {
	for c.doc[c.at] == ' ' || c.doc[c.at] == '\t' || c.doc[c.at] == '\n' || c.doc[c.at] == '\r' {
		c.at++
	}
	return c.doc[c.at]
}

// Object calls member for each key of an object, and returns the position of the object. member must
// read the value, which the cursor is at.
func (c *Cursor) Object(member func(key Span)) Span {
	return c.each('}', func(int) {
		c.Kind()
		key := c.string()
		c.Kind()
		c.at++ // the colon
		member(key)
	})
}

// List calls item for each value of a list, and returns the position of the list. item must read the
// value, which the cursor is at.
func (c *Cursor) List(item func(at int)) Span { return c.each(']', item) }

func (c *Cursor) each(end byte, read func(at int)) Span {
	c.Kind()
	start := c.at
	c.at++
	for at := 0; c.Kind() != end; at++ {
		read(at)
		if c.Kind() == ',' {
			c.at++
		}
	}
	c.at++
	return Span{start, c.at}
}

// Skip reads a value of any kind and returns its position.
func (c *Cursor) Skip() Span {
	kind := c.Kind()
	start := c.at
	switch kind {
	case '{', '[':
		for depth := 0; ; {
			switch c.doc[c.at] {
			case '"':
				c.string()
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			c.at++
			if depth == 0 {
				return Span{start, c.at}
			}
		}
	case '"':
		return c.string()
	}
	for c.at < len(c.doc) && !isEnd(c.doc[c.at]) {
		c.at++
	}
	return Span{start, c.at}
}

func isEnd(b byte) bool {
	switch b {
	case ',', '}', ']', ' ', '\t', '\n', '\r':
		return true
	}
	return false
}

func (c *Cursor) string() Span {
	start := c.at
	for c.at++; c.doc[c.at] != '"'; c.at++ {
		if c.doc[c.at] == '\\' {
			c.at++
		}
	}
	c.at++
	return Span{start, c.at}
}

// Raw returns the bytes of a value.
func (c *Cursor) Raw(s Span) []byte { return c.doc[s.Start:s.End] }

// Is reports whether a key or a string is a text without escapes.
func (c *Cursor) Is(s Span, text string) bool {
	return s.Len() == len(text)+2 && string(c.doc[s.Start+1:s.End-1]) == text
}

// Text returns the content of a key or a string.
func (c *Cursor) Text(s Span) string {
	inner := c.doc[s.Start+1 : s.End-1]
	for _, b := range inner {
		if b == '\\' || b >= 0x80 { // json.Valid accepts invalid UTF-8, which Unmarshal replaces
			var text string
			if json.Unmarshal(c.doc[s.Start:s.End], &text) != nil { // it is valid
				return string(inner)
			}
			return text
		}
	}
	return string(inner)
}
