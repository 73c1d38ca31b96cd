package openai

import (
	"bytes"

	"gke-inference/gateway/internal/apierror"
	"gke-inference/gateway/internal/jsonwalk"
)

// saltField is the field of vLLM and SGLang by which requests share a prefix cache: only those with an equal
// salt do.
const saltField = "cache_salt"

// Salted returns a body in parts, with the salt that saltOf derives from the client's own one. That is empty
// if the client sends none. The body must be a valid JSON object, and its parts are not copied.
func Salted(body []byte, saltOf func(given string) string) ([][]byte, *Error) {
	cursor, isValid := jsonwalk.New(body)
	if !isValid || cursor.Kind() != '{' {
		return nil, apierror.Invalid(400, "invalid_json", "", "The body must be one JSON object.")
	}
	var given string
	var at *jsonwalk.Span
	isString := true
	cursor.Object(func(key jsonwalk.Span) {
		if cursor.Text(key) != saltField {
			cursor.Skip()
			return
		}
		kind := cursor.Kind()
		span := cursor.Skip()
		at = &span
		if kind == '"' {
			given = cursor.Text(span)
		}
		isString = kind == 'n' || given != ""
	})
	if !isString {
		return nil, apierror.Invalid(400, "invalid_type", saltField, "`%s` must be a text that is not empty.", saltField)
	}
	value := []byte(`"` + saltOf(given) + `"`)
	if at != nil {
		return [][]byte{body[:at.Start], value, body[at.End:]}, nil
	}
	first := bytes.IndexByte(body, '{') + 1
	member := append([]byte(`"`+saltField+`":`), value...)
	return [][]byte{body[:first], append(member, ','), body[first:]}, nil
}
