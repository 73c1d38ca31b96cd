// Package forms reads forms of `multipart/form-data` strictly.
//
// Parsers of forms disagree about many things. What this package reads and what the image server reads
// (workloads/diffusion/forms.py) must be the same, or a field could pass a guard unseen: both accept only
// one plain grammar, and share the cases of testdata.
package forms

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	maxParts     = 64
	maxHeadBytes = 1 << 10
	maxTextBytes = 1 << 17
)

var (
	contentType = regexp.MustCompile(
		`^(?i:multipart/form-data);[ \t]*(?i:boundary)=(?:"([0-9A-Za-z'()+_,./:=?-]{1,70})"|([0-9A-Za-z'()+_,./:=?-]{1,70}))$`)
	disposition = regexp.MustCompile(
		`^(?i:form-data);[ \t]*(?i:name)="([A-Za-z0-9_\[\]]{1,64})"(?:;[ \t]*(?i:filename)="([^"\\\x00-\x1f\x7f]{0,255})")?$`)
	textType     = regexp.MustCompile(`^(?i:text/plain)(?:;[ \t]*[cC][hH][aA][rR][sS][eE][tT]="?(?i:utf-8)"?)?$`)
	jsonNumber   = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,15})(\.[0-9]{1,16})?$`)
	fileParts    = map[string]bool{"image": true, "image[]": true, "mask": true}
	numbers      = map[string]bool{"guidance_scale": true, "n": true, "num_inference_steps": true, "partial_images": true, "seed": true, "strength": true}
	headers      = map[string]bool{"content-disposition": true, "content-length": true, "content-transfer-encoding": true, "content-type": true}
	encodings    = map[string]bool{"": true, "7bit": true, "8bit": true, "binary": true}
	headersRule  = "the headers of a part must be content-disposition, content-length, content-transfer-encoding and content-type, each once"
	lineEnd      = []byte("\r\n")
	headEnd      = []byte("\r\n\r\n")
	endOfAllForm = []byte("--")
)

// Fault is what is wrong with a form. Field is the part, if it has a name.
type Fault struct{ Field, Reason string }

// Error names the field and the rule.
func (f *Fault) Error() string {
	if f.Field == "" {
		return "The form: " + f.Reason + "."
	}
	return "`" + f.Field + "` " + f.Reason + "."
}

// Part is a part of a form. Its content is a part of the body, from Start to End.
type Part struct {
	Name       string
	IsFile     bool
	Content    []byte
	Start, End int
}

// Form is a form that was read.
type Form struct {
	Parts []Part
	// Delimiter is what no content has.
	Delimiter []byte
}

// Is reports whether a request says that its body is a form, well or badly.
func Is(contentTypes []string) bool {
	for _, one := range contentTypes {
		if strings.HasPrefix(strings.ToLower(strings.TrimSpace(one)), "multipart/") {
			return true
		}
	}
	return false
}

// Boundary returns the boundary of a form.
func Boundary(contentTypes []string) (string, *Fault) {
	if len(contentTypes) == 1 {
		if found := contentType.FindStringSubmatch(strings.Trim(contentTypes[0], " \t")); found != nil {
			return found[1] + found[2], nil
		}
	}
	return "", &Fault{"", "content-type must be multipart/form-data with a boundary, and nothing else"}
}

// Read reads a form. It keeps the body.
func Read(body []byte, boundary string) (*Form, *Fault) {
	mark := []byte("--" + boundary)
	if !bytes.HasPrefix(body, append(bytes.Clone(mark), lineEnd...)) {
		return nil, &Fault{"", "the body must begin with the boundary of its content-type"}
	}
	made := &Form{Delimiter: append(bytes.Clone(lineEnd), mark...)}
	at := len(mark) + len(lineEnd)
	for {
		if len(made.Parts) == maxParts {
			return nil, &Fault{"", fmt.Sprintf("the form must have at most %d parts", maxParts)}
		}
		length := bytes.Index(body[at:], made.Delimiter)
		if length < 0 {
			return nil, &Fault{"", "the form must end with its boundary"}
		}
		part, fault := readPart(body, at, at+length)
		if fault != nil {
			return nil, fault
		}
		made.Parts = append(made.Parts, part)
		rest := body[at+length+len(made.Delimiter):]
		switch {
		case bytes.HasPrefix(rest, endOfAllForm):
			if rest = rest[len(endOfAllForm):]; len(rest) > 0 && !bytes.Equal(rest, lineEnd) {
				return nil, &Fault{"", "nothing must follow the form"}
			}
			return made, nil
		case !bytes.HasPrefix(rest, lineEnd):
			return nil, &Fault{"", "a boundary must be a line of its own"}
		}
		at = len(body) - len(rest) + len(lineEnd)
	}
}

func readPart(body []byte, start, end int) (Part, *Fault) {
	head, content, has := bytes.Cut(body[start:end], headEnd)
	if !has || len(head) > maxHeadBytes {
		return Part{}, &Fault{"", fmt.Sprintf("a part must have headers of at most %d bytes, then a blank line", maxHeadBytes)}
	}
	if !utf8.Valid(head) {
		return Part{}, &Fault{"", "the headers of a part must be UTF-8"}
	}
	found := map[string]string{}
	for line := range strings.SplitSeq(string(head), "\r\n") {
		name, value, hasColon := strings.Cut(line, ":")
		name = strings.ToLower(name)
		if _, isTwice := found[name]; !hasColon || !headers[name] || isTwice {
			return Part{}, &Fault{"", headersRule}
		}
		found[name] = strings.Trim(value, " \t")
	}
	matched := disposition.FindStringSubmatchIndex(found["content-disposition"])
	if matched == nil {
		return Part{}, &Fault{"", "content-disposition of a part must be form-data with name, and with filename for a file"}
	}
	part := Part{
		Name: found["content-disposition"][matched[2]:matched[3]], IsFile: matched[4] >= 0,
		Content: content, Start: end - len(content), End: end,
	}
	if !encodings[strings.ToLower(found["content-transfer-encoding"])] {
		return Part{}, &Fault{part.Name, "must have the content-transfer-encoding binary"}
	}
	if part.IsFile {
		return part, nil
	}
	kind, hasKind := found["content-type"]
	switch {
	case hasKind && !textType.MatchString(kind):
		return Part{}, &Fault{part.Name, "must have the content-type text/plain in UTF-8"}
	case len(content) > maxTextBytes:
		return Part{}, &Fault{part.Name, fmt.Sprintf("must have at most %d bytes", maxTextBytes)}
	case !utf8.Valid(content):
		return Part{}, &Fault{part.Name, "must be UTF-8"}
	}
	return part, nil
}

// Check refuses forms whose files or texts are not those of an image to change, and names that appear
// twice.
func (f *Form) Check() *Fault {
	seen := map[string]bool{}
	for _, part := range f.Parts {
		isImage := part.Name == "image" || part.Name == "image[]"
		switch {
		case part.IsFile && !fileParts[part.Name]:
			return &Fault{part.Name, "must be a text, not a file"}
		case !part.IsFile && fileParts[part.Name]:
			return &Fault{part.Name, "must be a file"}
		case seen[part.Name] && !isImage:
			return &Fault{part.Name, "must appear only once"}
		}
		seen[part.Name] = true
	}
	return nil
}

// JSON returns the texts of a form as the JSON object that would ask for the same.
func (f *Form) JSON() []byte {
	fields := map[string]any{}
	for _, part := range f.Parts {
		if part.IsFile {
			continue
		}
		text := string(part.Content)
		if IsValue(part.Name, text) {
			fields[part.Name] = json.RawMessage(text)
		} else {
			fields[part.Name] = text
		}
	}
	made, err := json.Marshal(fields)
	if err != nil { // texts can always be encoded
		return []byte("{}")
	}
	return made
}

// IsValue reports whether the text of a field is a number or a switch.
func IsValue(name, text string) bool {
	if name == "stream" {
		return text == "true" || text == "false"
	}
	return numbers[name] && jsonNumber.MatchString(text)
}
