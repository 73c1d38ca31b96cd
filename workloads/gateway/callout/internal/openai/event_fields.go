package openai

import (
	"bytes"

	"gke-inference/gateway/internal/jsonwalk"
)

// eventFields are the parts of an event that tell of its usage.
type eventFields struct {
	choices, key, usage jsonwalk.Span
	// response and message are the usage inside these fields.
	response, message jsonwalk.Span
	count             int
	// index is that of the first choice.
	index int64
}

func readEvent(cursor *jsonwalk.Cursor) (found eventFields) {
	cursor.Object(func(key jsonwalk.Span) {
		switch {
		case cursor.Is(key, "choices") && cursor.Kind() == '[':
			found.choices = cursor.List(func(at int) {
				found.count++
				if index := choiceIndex(cursor); at == 0 {
					found.index = index
				}
			})
		case cursor.Is(key, "usage"):
			found.key, found.usage = key, cursor.Skip()
		case cursor.Is(key, "response") && cursor.Kind() == '{':
			found.response = innerUsage(cursor)
		case cursor.Is(key, "message") && cursor.Kind() == '{':
			found.message = innerUsage(cursor)
		default:
			cursor.Skip()
		}
	})
	return found
}

func innerUsage(cursor *jsonwalk.Cursor) (found jsonwalk.Span) {
	cursor.Object(func(key jsonwalk.Span) {
		if span := cursor.Skip(); cursor.Is(key, "usage") {
			found = span
		}
	})
	return found
}

func choiceIndex(cursor *jsonwalk.Cursor) (index int64) {
	if cursor.Kind() != '{' {
		cursor.Skip()
		return 0
	}
	cursor.Object(func(key jsonwalk.Span) {
		if span := cursor.Skip(); cursor.Is(key, "index") {
			index = digits(cursor.Raw(span))
		}
	})
	return index
}

// digits returns a whole number of few digits, or 0.
func digits(text []byte) (number int64) {
	if len(text) > 9 {
		return 0
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0
		}
		number = number*10 + int64(c-'0')
	}
	return number
}

// replaced returns a document with another value at a position.
func replaced(doc []byte, at jsonwalk.Span, value string) []byte {
	made := make([]byte, 0, len(doc)-at.Len()+len(value))
	made = append(append(made, doc[:at.Start]...), value...)
	return append(made, doc[at.End:]...)
}

// without returns an object without one of its members.
func without(doc []byte, key, value jsonwalk.Span) []byte {
	before := bytes.TrimRight(doc[:key.Start], " \t\r\n")
	after := bytes.TrimLeft(doc[value.End:], " \t\r\n")
	if rest, isFollowed := bytes.CutPrefix(after, []byte(",")); isFollowed {
		after = rest
	} else {
		before = bytes.TrimSuffix(before, []byte(","))
	}
	return append(bytes.Clone(before), after...)
}
