package forms

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
)

type one struct {
	Name         string
	ContentTypes []string `json:"content_types"`
	Body         string
	Parts        []struct {
		Name    string
		IsFile  bool `json:"is_file"`
		Content string
	}
}

// raw returns the bytes of a text, each of which is a character of it.
func raw(text string) []byte {
	made := make([]byte, 0, len(text))
	for _, r := range text {
		made = append(made, byte(r))
	}
	return made
}

func cases(t testing.TB) []one {
	file, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var found []one
	if err := json.Unmarshal(file, &found); err != nil {
		t.Fatal(err)
	}
	return found
}

func read(contentTypes []string, body []byte) (*Form, *Fault) {
	boundary, fault := Boundary(contentTypes)
	if fault != nil {
		return nil, fault
	}
	return Read(body, boundary)
}

func TestAFormIsReadAsTheImageServerReadsItOrRefused(t *testing.T) {
	for _, c := range cases(t) {
		form, fault := read(c.ContentTypes, raw(c.Body))
		if (fault == nil) != (c.Parts != nil) {
			t.Errorf("%s: got %v", c.Name, fault)
			continue
		}
		if fault != nil {
			continue
		}
		if len(form.Parts) != len(c.Parts) {
			t.Errorf("%s: got %d parts", c.Name, len(form.Parts))
			continue
		}
		for at, want := range c.Parts {
			got := form.Parts[at]
			if got.Name != want.Name || got.IsFile != want.IsFile || !bytes.Equal(got.Content, raw(want.Content)) {
				t.Errorf("%s: got %+v", c.Name, got)
			}
			if !bytes.Equal(raw(c.Body)[got.Start:got.End], got.Content) {
				t.Errorf("%s: the content of %s is elsewhere", c.Name, got.Name)
			}
		}
	}
}

func TestATextHasAtMost128KiB(t *testing.T) {
	for count, isRead := range map[int]bool{maxTextBytes: true, maxTextBytes + 1: false} {
		body := "--B\r\nContent-Disposition: form-data; name=\"user\"\r\n\r\n" + string(bytes.Repeat([]byte("x"), count)) + "\r\n--B--"
		if _, fault := Read([]byte(body), "B"); (fault == nil) != isRead {
			t.Errorf("%d bytes: got %v", count, fault)
		}
	}
}

func TestTheTextsOfAFormAreTheFieldsOfJSON(t *testing.T) {
	texts := ""
	for _, pair := range [][2]string{{"model", "m"}, {"n", "2"}, {"seed", "0x7"}, {"stream", "true"}, {"prompt", "7"}, {"user", "a\"b"}, {"strength", "0.5"}} {
		texts += "--B\r\nContent-Disposition: form-data; name=\"" + pair[0] + "\"\r\n\r\n" + pair[1] + "\r\n"
	}
	form, fault := Read([]byte(texts+"--B--"), "B")
	if fault != nil {
		t.Fatal(fault)
	}
	want := `{"model":"m","n":2,"prompt":"7","seed":"0x7","stream":true,"strength":0.5,"user":"a\"b"}`
	if got := string(form.JSON()); got != want {
		t.Errorf("got %s", got)
	}
}

func TestFilesAreTheImagesAndTextsEverythingElse(t *testing.T) {
	part := func(name, more string) string {
		return "--B\r\nContent-Disposition: form-data; name=\"" + name + "\"" + more + "\r\n\r\nx\r\n"
	}
	const file = `; filename="a"`
	for body, field := range map[string]string{
		part("image", file) + part("image", file):  "",
		part("image[]", file) + part("mask", file): "",
		part("image", ""):                          "image",
		part("mask", ""):                           "mask",
		part("prompt", file):                       "prompt",
		part("notes", file):                        "notes",
		part("mask", file) + part("mask", file):    "mask",
		part("prompt", "") + part("prompt", ""):    "prompt",
		part("model", "") + part("model", ""):      "model",
	} {
		form, fault := Read([]byte(body+"--B--"), "B")
		if fault != nil {
			t.Fatal(fault)
		}
		if fault = form.Check(); (fault == nil) != (field == "") || fault != nil && fault.Field != field {
			t.Errorf("%q: got %v", body, fault)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, c := range cases(f) {
		f.Add(raw(c.Body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		form, fault := Read(body, "B")
		if fault != nil {
			return
		}
		for _, part := range form.Parts {
			if bytes.Contains(part.Content, form.Delimiter) || !bytes.Equal(body[part.Start:part.End], part.Content) {
				t.Errorf("%q: %+v", body, part)
			}
		}
		if !json.Valid(form.JSON()) {
			t.Errorf("%q: not JSON", body)
		}
	})
}
