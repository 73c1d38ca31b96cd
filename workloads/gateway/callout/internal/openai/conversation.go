package openai

import (
	"hash/maphash"
	"math/bits"

	"gke-inference/gateway/internal/jsonwalk"
	"gke-inference/gateway/internal/paths"
)

var seed = maphash.MakeSeed()

// Digest returns a digest of a text. It is the same in one run of the program only.
func Digest(text string) uint64 { return maphash.String(seed, text) }

// Conversation returns a digest of the beginning of a conversation, which all its requests have: the system prompt
// and the messages up to the first of the user. body is valid JSON. It returns false for a path without
// conversations, and for a body that has none.
//
// Only texts count. Clients move `cache_control` to the newest message, and then send as a list of parts what was a
// string before.
func Conversation(path string, body []byte) (digest uint64, has bool) {
	prompt, list := "", "messages"
	switch path {
	case paths.Chats:
	case paths.Messages, paths.CountTokens:
		prompt = "system"
	case paths.Responses:
		prompt, list = "instructions", "input"
	default:
		return 0, false
	}
	cursor := jsonwalk.Known(body)
	if cursor.Kind() != '{' {
		return 0, false
	}
	var first, messages maphash.Hash
	first.SetSeed(seed)
	messages.SetSeed(seed)
	cursor.Object(func(key jsonwalk.Span) {
		switch {
		case prompt != "" && cursor.Is(key, prompt):
			texts(cursor, &first)
		case cursor.Is(key, list) && cursor.Kind() == '[':
			has = begin(cursor, &messages) || has
		case cursor.Is(key, list) && cursor.Kind() == '"': // the input of a response
			texts(cursor, &messages)
			has = true
		default:
			cursor.Skip()
		}
	})
	// the two can come in any order
	return bits.RotateLeft64(first.Sum64(), 1) ^ messages.Sum64(), has
}

// begin adds messages up to the first of the user, and reports whether there is one.
func begin(cursor *jsonwalk.Cursor, hash *maphash.Hash) (has bool) {
	cursor.List(func(int) {
		if has || cursor.Kind() != '{' {
			cursor.Skip()
			return
		}
		cursor.Object(func(key jsonwalk.Span) {
			if !cursor.Is(key, "role") || cursor.Kind() != '"' {
				member(cursor, key, hash)
				return
			}
			has = cursor.Is(cursor.Skip(), "user") || has
		})
	})
	return has
}

// texts adds the strings of a value.
func texts(cursor *jsonwalk.Cursor, hash *maphash.Hash) {
	switch cursor.Kind() {
	case '{':
		cursor.Object(func(key jsonwalk.Span) { member(cursor, key, hash) })
	case '[':
		cursor.List(func(int) { texts(cursor, hash) })
	case '"':
		add(hash, cursor.Raw(cursor.Skip()))
	default:
		cursor.Skip()
	}
}

func member(cursor *jsonwalk.Cursor, key jsonwalk.Span, hash *maphash.Hash) {
	if cursor.Is(key, "cache_control") || cursor.Is(key, "type") || cursor.Is(key, "id") {
		cursor.Skip()
		return
	}
	texts(cursor, hash)
}

// add adds a text with an end, so that two texts are not another one.
func add(hash *maphash.Hash, text []byte) {
	_, _ = hash.Write(text) // never fails
	_ = hash.WriteByte(0)
}
