package texts

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"gke-inference/gateway/internal/forms"
	"gke-inference/gateway/internal/paths"
)

func image() string {
	decoded, _ := base64.StdEncoding.DecodeString(png)
	return string(decoded)
}

func part(name, content string) string {
	return "--B\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + content + "\r\n"
}

func filePart(name, content string) string {
	return "--B\r\nContent-Disposition: form-data; name=\"" + name + "\"; filename=\"a.png\"\r\n\r\n" + content + "\r\n"
}

func formOf(t *testing.T, body string) *forms.Form {
	t.Helper()
	form, fault := forms.Read([]byte(body), "B")
	if fault != nil {
		t.Fatal(fault)
	}
	return form
}

func TestAGuardSeesEveryTextOfAFormOrTheFormIsRefused(t *testing.T) {
	body := part("model", "m") + part("prompt", "a") + part("n", "2") + part("size", "auto") + part("response_format", "b64_json") +
		part("user", "u") + part("stream", "true") + part("seed", "FORBIDDEN") + filePart("image", image()) + filePart("mask", image()) + "--B--"
	found, refused := Form(paths.Edits, formOf(t, body))
	var got []string
	for _, one := range found {
		got = append(got, one.Content)
	}
	if want := []string{"a", "auto", "u", "FORBIDDEN"}; refused != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v", got, refused)
	}
	names := []string{
		"prompt", "negative_prompt", "user", "size", "n", "seed", "strength", "stream", "style", "quality", "notes", "prompt_2",
		"images", "mask_url", "lora", "prompt_embeds", "request_id", "response_format",
	}
	for _, name := range names {
		found, refused := Form(paths.Edits, formOf(t, part("model", "m")+part(name, "FORBIDDEN")+"--B--"))
		if refused == nil && !sees(found) {
			t.Errorf("%s passes unread", name)
		}
	}
}

func TestAFileThatIsNoImageIsRefused(t *testing.T) {
	for _, content := range []string{"", "FORBIDDEN TEXT THAT IS LONG", "%PDF-1.7 and more than that", image()[:4]} {
		if _, refused := Form(paths.Edits, formOf(t, filePart("image", content)+"--B--")); refused == nil || refused.Field != "image" {
			t.Errorf("%q: got %v", content, refused)
		}
	}
}

func TestOtherTextsTakeTheirPlacesInAFormAndNothingElseChanges(t *testing.T) {
	body := part("prompt", "mail a@b.de") + filePart("image", image()+"\r\n\r\na@b.de") + part("user", "c@d.de") + "--B--\r\n"
	form := formOf(t, body)
	found, _ := Form(paths.Edits, form)
	got, ok := Splice([]byte(body), found, []string{"mail <EMAIL>", "<EMAIL>"})
	want := part("prompt", "mail <EMAIL>") + filePart("image", image()+"\r\n\r\na@b.de") + part("user", "<EMAIL>") + "--B--\r\n"
	if string(got) != want || !ok {
		t.Errorf("got %q", got)
	}
	for _, other := range []string{"--B--", "x\r\n--B\r\n", strings.TrimSuffix(part("model", "other"), "\r\n")} {
		if _, ok := Splice([]byte(body), found, []string{other, "c@d.de"}); ok {
			t.Errorf("%q became a part of the form", other)
		}
	}
}
