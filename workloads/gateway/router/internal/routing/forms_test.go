package routing

import (
	"fmt"
	"strings"
	"testing"
)

const (
	editsPath = "/v1/images/edits"
	formType  = "multipart/form-data; boundary=B"
)

func text(name, value string) string {
	return "--B\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n"
}

func picture(name, value string) string {
	return "--B\r\nContent-Disposition: form-data; name=\"" + name + "\"; filename=\"a.png\"\r\nContent-Type: image/png\r\n\r\n" + value + "\r\n"
}

func (w *world) edit(kind string, pieces ...string) answer {
	w.t.Helper()
	return w.ask(request{
		method: "POST", path: editsPath, pieces: pieces, headers: map[string]string{ModelHeader: "forged", "content-type": kind},
	})
}

func TestTheModelOfAFormBecomesAHeaderAndTheFormPassesUnchanged(t *testing.T) {
	w := start(t)
	file := strings.Repeat("\x89\x00\r\n--A\xff", 100_000)
	body := picture("image", file) + text("prompt", "{\"model\":\"x\"}") + text("model", "a/b-1") + text("n", "2") + "--B--\r\n"
	got := w.edit(formType, body[:7], body[7:500_000], body[500_000:])
	if got.set[ModelHeader] != "a/b-1" || !got.clears || got.body != body || !got.ended {
		t.Errorf("got %v, clears %v, %d bytes, ended %v", got.set, got.clears, len(got.body), got.ended)
	}
	if got.set["content-length"] != fmt.Sprint(len(body)) {
		t.Error(got.set)
	}
	json := `{"model":"m","prompt":"x","images":[{"image_url":"data:image/png;base64,AAAA"}]}`
	if got := w.edit("application/json", json); got.set[ModelHeader] != "m" || got.body != json {
		t.Errorf("got %v", got)
	}
}

func TestWhatIsWrongWithAFormIsRefusedWith400(t *testing.T) {
	w := start(t)
	for body, code := range map[string]string{
		text("prompt", "x") + "--B--":                                   "invalid_model",
		text("model", "") + "--B--":                                     "invalid_model",
		text("model", "a\x00b") + "--B--":                               "invalid_model",
		text("model", strings.Repeat("m", 257)) + "--B--":               "invalid_model",
		text("model", "m") + text("model", "n") + "--B--":               "invalid_form",
		picture("model", "m") + "--B--":                                 "invalid_form",
		text("model", "m") + text("image", "x") + "--B--":               "invalid_form",
		text("model", "m") + text("request_id", "x") + "--B--":          "unsupported_parameter",
		text("model", "m") + text("priority", "-1") + "--B--":           "unsupported_parameter",
		text("model", "m") + text("kv_transfer_params", "{}") + "--B--": "unsupported_parameter",
		text("model", "m"):                                              "invalid_form",
		"x" + text("model", "m") + "--B--":                              "invalid_form",
		text("model", "m") + "--B--\r\n" + text("model", "n") + "--B--": "invalid_form",
		`{"model":"m"}`: "invalid_form",
		strings.Replace(text("model", "m"), "name=", "name*=", 1) + "--B--":          "invalid_form",
		strings.Replace(text("model", "m"), "\"\r\n", "\"\r\nX: y\r\n", 1) + "--B--": "invalid_form",
	} {
		if got := w.edit(formType, body); got.status != 400 || got.code != code || got.set[ModelHeader] != "" {
			t.Errorf("%.80q: got %d %s", body, got.status, got.code)
		}
	}
	body := text("model", "m") + "--B--"
	for _, kind := range []string{
		"multipart/form-data", "multipart/mixed; boundary=B", "multipart/form-data; boundary=C", "multipart/form-data; boundary=B; boundary=C",
		"multipart/form-data; charset=utf-7; boundary=B", "multipart/form-data; boundary*=B",
	} {
		if got := w.edit(kind, body); got.status != 400 || got.code != "invalid_form" {
			t.Errorf("%s: got %d %s", kind, got.status, got.code)
		}
	}
	if got := w.edit("application/json", body); got.status != 400 || got.code != "invalid_json" {
		t.Errorf("a form that says it is JSON: got %d %s", got.status, got.code)
	}
	if got := w.ask(request{method: "POST", path: "/v1/images/generations", pieces: []string{body}, headers: map[string]string{"content-type": formType}}); got.status != 400 {
		t.Errorf("a form on another path: got %d", got.status)
	}
}

func TestAFormOverTheLimitIsRefused(t *testing.T) {
	w := start(t)
	pieces := []string{text("model", "m") + picture("image", "")[:80]}
	for range maxBody/(1<<20) + 1 {
		pieces = append(pieces, strings.Repeat("x", 1<<20))
	}
	if got := w.edit(formType, pieces...); got.status != 413 {
		t.Errorf("got %d %s", got.status, got.code)
	}
}
