// Package texts finds all texts of requests and responses that guards check. What a guard cannot see is
// refused: the names of fields, roles and protocol words are lists of what is accepted.
package texts

import (
	"encoding/base64"
	"fmt"
	"strings"

	"gke-inference/gateway/internal/jsonwalk"
)

// Text is a text inside a JSON document.
type Text struct {
	// Role is the role of the surrounding message; empty if there is none.
	Role    string
	Content string

	at jsonwalk.Span
	// isFixed is set for names: no guard can mask them.
	isFixed bool
	// delimiter of the form that the text is a part of, as it is; empty inside JSON.
	delimiter string
}

// Refused is a field that no guard can check.
type Refused struct{ Field, Reason string }

// Error names the field and the reason.
func (r *Refused) Error() string { return r.Field + ": " + r.Reason }

// Request returns every text of a request, in order. It refuses fields, roles and prompts that no guard
// can check. isAnswerRead is whether a guard also reads the answer. The body must be valid JSON.
func Request(path string, body []byte, isAnswerRead bool) ([]Text, *Refused) {
	cursor, isValid := jsonwalk.New(body)
	if !isValid || cursor.Kind() != '{' {
		return nil, &Refused{"", "The body must be one JSON object."}
	}
	r := request{walk: walk{Cursor: cursor}, path: path, isAnswerRead: isAnswerRead}
	cursor.Object(r.field)
	return r.found, r.refused
}

type request struct {
	walk
	path         string
	isAnswerRead bool
}

func (r *request) field(key jsonwalk.Span) {
	name := r.Text(key)
	r.trail = []string{name}
	isOff := r.isOff()
	switch {
	case isOff:
		r.Skip()
	case !accepted[r.path][name]:
		r.refuse(name, "must not be set: a guardrail of this model cannot read it.")
		r.Skip()
	case r.isAnswerRead && copies[name]:
		r.refuse(name, "must not be set: a guardrail of this model reads responses.")
		r.Skip()
	case r.isAnswerRead && name == "include":
		r.include()
	case name == "model":
		r.Skip() // a name of the configuration, or the request is refused
	case (name == "messages" || name == "input") && roles[r.path] != nil && r.Kind() == '[':
		r.List(func(at int) { r.message(fmt.Sprintf("%s[%d]", name, at)) })
	case name == "prompt" || name == "input":
		r.prompt(name)
	case name == "system" || name == "instructions":
		first := len(r.found)
		r.value(name)
		r.setRole(first, "system")
	default:
		r.value(name)
	}
}

// setRole sets the role of the texts from one on.
func (r *request) setRole(first int, role string) {
	for at := first; at < len(r.found); at++ {
		r.found[at].Role = role
	}
}

// include reads what a response shall contain besides its texts.
func (r *request) include() {
	if r.Kind() != '[' {
		r.item("include")
		return
	}
	r.List(func(int) {
		span := r.Skip()
		if r.Raw(span)[0] != '"' || !words["include"][r.Text(span)] {
			r.refuse("include", "must not ask for copies of texts: a guardrail of this model reads responses.")
		}
	})
}

// isOff reports whether the value is null or false, without reading it.
func (w *walk) isOff() bool { return w.Kind() == 'n' || w.Kind() == 'f' }

// message reads one message. All texts in it have its role, whatever the names of inner fields are.
func (r *request) message(where string) {
	if r.Kind() != '{' {
		r.item(where)
		return
	}
	first, role := len(r.found), ""
	r.Object(func(key jsonwalk.Span) {
		if r.Text(key) != "role" {
			r.member(key)
			return
		}
		span := r.Skip()
		if raw := r.Raw(span); string(raw) != "null" {
			if raw[0] != '"' || !roles[r.path][r.Text(span)] {
				r.refuse(where+".role", "must be one of the roles of this API: a guardrail of this model reads prompts.")
				return
			}
			role = r.Text(span)
		}
	})
	r.setRole(first, role)
}

// item reads a value directly inside a list of prompts: a text, and not token IDs.
func (r *request) item(name string) {
	switch r.Kind() {
	case '"', '{':
		r.value("")
	case 'n':
		r.Skip()
	default:
		r.refuse(name, "must be text: a guardrail of this model reads prompts.")
		r.Skip()
	}
}

func (r *request) prompt(name string) {
	if r.Kind() == '[' {
		r.List(func(int) { r.item(name) })
		return
	}
	r.item(name)
}

// walk collects texts.
type walk struct {
	*jsonwalk.Cursor
	found   []Text
	refused *Refused
	// answers is whether the document is an answer.
	answers bool
	// trail are the names from the document to the value, without the places in lists.
	trail []string
}

func (w *walk) refuse(field, reason string) {
	if w.refused == nil {
		w.refused = &Refused{field, reason}
	}
}

// name collects the name of a field, unless the APIs have it.
func (w *walk) name(key jsonwalk.Span) {
	if name := w.Text(key); !keys[name] {
		w.found = append(w.found, Text{Content: name, at: key, isFixed: true})
	}
}

// member collects all texts of a field, and its name.
func (w *walk) member(key jsonwalk.Span) {
	name := w.Text(key)
	if w.isUnreadable(name) {
		w.refuse(name, "must not be set: a guardrail of this model cannot read it.")
		w.Skip()
		return
	}
	w.name(key)
	if name == source && !w.isBase64() {
		name = "" // a text, whatever it looks like
	}
	w.trail = append(w.trail, name)
	w.value(name)
	w.trail = w.trail[:len(w.trail)-1]
}

// source is the field of Anthropic's messages with an image, or with the text of a document.
const source = "source"

// isBase64 reports whether a source says that it is media, without reading it.
func (w *walk) isBase64() bool {
	if w.Kind() != '{' {
		return false
	}
	before, found := *w.Cursor, false
	w.Object(func(key jsonwalk.Span) {
		if span := w.Skip(); w.Text(key) == "type" {
			found = w.Is(span, "base64")
		}
	})
	*w.Cursor = before
	return found
}

// value collects all texts of a value; key is its name.
func (w *walk) value(key string) {
	switch w.Kind() {
	case '{':
		w.Object(w.member)
	case '[':
		w.List(func(int) { w.value(key) })
	case '"':
		span := w.Skip()
		if content := w.Text(span); !w.isWord(key, content) && content != "" {
			w.found = append(w.found, Text{Content: content, at: span})
		}
	default:
		w.Skip()
	}
}

func (w *walk) isUnreadable(name string) bool {
	if !w.answers {
		return unreadable[name] && !w.isOff()
	}
	return repeated[name] && !w.isEmpty()
}

// isEmpty reports whether the value is nothing, without reading it.
func (w *walk) isEmpty() bool {
	before := *w.Cursor
	raw := w.Raw(w.Skip())
	*w.Cursor = before
	switch string(raw) {
	case "null", "false", "0", `""`, "[]", "{}":
		return true
	}
	return false
}

// isWord reports whether a text is a word of the protocol, or media.
func (w *walk) isWord(key, content string) bool {
	if key == "role" && !w.answers {
		return false // not the role of a message: that is read elsewhere
	}
	return words[key][content] || (w.isMediaPlace() && isMedia(content)) || (w.answers && isID(key, content))
}

// media are the first bytes of images, recordings and videos.
var media = []string{"\x89PNG", "\xff\xd8\xff", "GIF8", "RIFF", "ID3", "\xff\xfb", "\xff\xf3", "OggS", "fLaC", "ftyp"}

// isMedia reports whether a text is an image, a recording or a video in base64, with or without the head
// of a data URL. No guard reads these.
func isMedia(content string) bool {
	if head, rest, isURL := strings.Cut(content, ";base64,"); isURL {
		kind, is := strings.CutPrefix(head, "data:")
		if !is || !mediaTypes[kind] {
			return false
		}
		content = rest
	}
	if len(content) < 24 || strings.Trim(content, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") != "" {
		return false
	}
	start, err := base64.StdEncoding.DecodeString(content[:24])
	if err != nil || strings.ContainsFunc(content, isNotBase64) {
		return false
	}
	for _, magic := range media {
		if strings.HasPrefix(string(start), magic) || (magic == "ftyp" && string(start[4:8]) == magic) {
			return true
		}
	}
	return false
}

// isMediaPlace reports whether an engine reads the value as an image, a recording or a video. Elsewhere, the
// same characters are a text of the prompt, such as a value in the schema of a tool.
func (w *walk) isMediaPlace() bool {
	places := mediaOfRequests
	if w.answers {
		places = mediaOfAnswers
	}
	return places[strings.Join(w.trail, "/")]
}

var mediaTypes = set([]string{
	"image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp", "audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp3",
	"audio/ogg", "audio/flac", "video/mp4", "video/webm",
})

func isNotBase64(r rune) bool {
	isLetter := (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9')
	return !isLetter && r != '+' && r != '/' && r != '='
}
