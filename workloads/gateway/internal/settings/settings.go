// Package settings reads files of settings. An error is one line: field, rule and value.
package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Read reads a whole YAML file into a value, whose fields are all that the file may have.
func Read(content []byte, into any) error {
	asJSON, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		return errors.New(oneLine(err.Error()))
	}
	return Decode("", asJSON, into)
}

// Decode reads the JSON of one field. Nothing is read from an empty text.
func Decode(field string, raw []byte, into any) error {
	if len(raw) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return fmt.Errorf("%s: must be %s, got %s", joined(field, wrong.Field), kindOf(wrong.Type.String()), wrong.Value)
	case strings.HasPrefix(err.Error(), "json: unknown field "):
		name := strings.Trim(strings.TrimPrefix(err.Error(), "json: unknown field "), `"`)
		return fmt.Errorf("%s: must be a known field, got an unknown one", joined(field, name))
	default:
		return fmt.Errorf("%s: %s", joined(field), oneLine(err.Error()))
	}
}

// WebAddress returns the address in a text.
func WebAddress(field, text string) (*url.URL, error) {
	address, err := url.Parse(text)
	if err != nil || address.Host == "" || (address.Scheme != "http" && address.Scheme != "https") {
		return nil, fmt.Errorf("%s: must be an http or https address, got %q", field, text)
	}
	return address, nil
}

func joined(parts ...string) string {
	kept := slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	if len(kept) == 0 {
		return "file"
	}
	return strings.Join(kept, ".")
}

func kindOf(goType string) string {
	words := map[string]string{
		"int": "a whole number", "int64": "a whole number", "float64": "a number", "bool": "true or false",
		"string": "a text", "[]string": "a list of texts",
	}
	if word, has := words[goType]; has {
		return word
	}
	return "an object"
}

func oneLine(message string) string { return strings.Join(strings.Fields(message), " ") }
