package extproc

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"gke-inference/gateway/callout/internal/guard"
)

const (
	formType = "multipart/form-data; boundary=B"
	pngHead  = "\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x00\x01"
)

func formText(name, value string) string {
	return "--B\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n"
}

func formFile(name, value string) string {
	return "--B\r\nContent-Disposition: form-data; name=\"" + name + "\"; filename=\"a.png\"\r\n\r\n" + value + "\r\n"
}

// edit sends a request, and returns the body that is forwarded, or the refusal.
func edit(t *testing.T, client extproc.ExternalProcessorClient, body string, pairs ...string) (forwarded string, status int, refused string) {
	t.Helper()
	c := begin(t, client)
	message := asked(false, append([]string{":path", "/v1/images/edits", "content-type", formType}, pairs...)...)
	list := message.GetRequestHeaders().GetHeaders()
	list.Headers = lastOfEach(list.GetHeaders())
	c.send(message, requestBody(body, true))
	for {
		reply := c.receive()
		if answer := reply.GetImmediateResponse(); answer != nil {
			return "", int(answer.GetStatus().GetCode()), string(answer.GetBody())
		}
		part := reply.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		forwarded += string(part.GetBody())
		if part.GetEndOfStream() {
			return forwarded, 0, ""
		}
	}
}

func TestAFormForAModelThatDrawsNothingIsAnsweredLikeAnyPathThatAModelDoesNotServe(t *testing.T) {
	client, _ := gatewayOf(t, unlimited)
	c := begin(t, client)
	message := asked(false, ":path", "/v1/images/edits", "content-type", formType)
	list := message.GetRequestHeaders().GetHeaders()
	list.Headers = lastOfEach(list.GetHeaders())
	body := formFile("image", pngHead) + formText("model", "m") + formText("prompt", "a") + "--B--\r\n"
	c.send(message, requestBody(body, true))
	c.receive()
	c.requestParts(len(body))
	c.send(answered(":status", "400", "content-type", "text/plain"))
	c.send(responseBody("inference error: BadRequest - error unmarshaling request bodyMap: invalid character '-' in numeric literal", true))
	found := c.receive().GetImmediateResponse()
	if found.GetStatus().GetCode() != 404 || !strings.Contains(string(found.GetBody()), "The model does not serve POST /v1/images/edits.") {
		t.Errorf("got %s", found)
	}
}

func TestAFormIsAdmittedLikeJSONAndPassesUnchanged(t *testing.T) {
	client, _ := gatewayOf(t, unlimited)
	body := formFile("image", pngHead+strings.Repeat("x", 200_000)) + formText("model", "m") + formText("prompt", "a") + "--B--\r\n"
	if got, status, refused := edit(t, client, body); got != body {
		t.Errorf("got %d bytes, %d %s", len(got), status, refused)
	}
	for _, one := range []struct {
		body, code string
		status     int
		pairs      []string
	}{
		{formText("model", "other") + "--B--", "model_not_found", 404, nil},
		{formText("model", "m") + "--B--", "model_mismatch", 400, []string{"x-gateway-model-name", "n"}},
		{formText("prompt", "m") + "--B--", "invalid_model", 400, nil},
		{formText("model", "m") + formText("model", "m") + "--B--", "invalid_form", 400, nil},
		{formText("model", "m") + formText("n", "2000") + "--B--", "invalid_type", 400, nil},
		{formText("model", "m") + formText("n", "many") + "--B--", "invalid_type", 400, nil},
		{formText("model", "m") + formText("stream", "perhaps") + "--B--", "invalid_type", 400, nil},
		{formText("model", "m"), "invalid_form", 400, nil},
		{formText("model", "m") + "--B--", "invalid_form", 400, []string{"content-type", "multipart/form-data"}},
		{formText("model", "m") + "--B--", "unsupported_media_type", 415, []string{"content-encoding", "gzip"}},
		{formText("model", "m") + "--B--", "unsupported_media_type", 415, []string{":path", "/v1/images/generations"}},
		{formText("model", "m") + formFile("image", pngHead+strings.Repeat("x", 1<<20)) + "--B--", "request_too_large", 413, nil},
	} {
		if _, status, refused := edit(t, client, one.body, one.pairs...); status != one.status || !strings.Contains(refused, `"`+one.code+`"`) {
			t.Errorf("%.60q: got %d %s", one.body, status, refused)
		}
	}
}

func TestAGuardIsAskedAboutTheTextsOfAFormAndMasksThem(t *testing.T) {
	heard := make(chan string, 8)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		heard <- string(body)
		if strings.Contains(string(body), "BLOCKED") {
			fmt.Fprint(w, `{"action":"block","message":"No."}`)
			return
		}
		var asked struct {
			Messages []guard.Text `json:"messages"`
		}
		_ = json.Unmarshal(body, &asked)
		for at := range asked.Messages {
			asked.Messages[at].Content = strings.ReplaceAll(asked.Messages[at].Content, "SECRET", "<X>")
		}
		made, _ := json.Marshal(map[string]any{"action": "replace", "messages": asked.Messages})
		_, _ = w.Write(made)
	}))
	defer service.Close()
	client, _ := gatewayOf(t, unlimited+`
models: {m: {guards: [g]}}
guards: {g: {url: "`+service.URL+`", phases: [input], failure: closed, timeout_ms: 5000}}
`)
	image := formFile("image", pngHead+"SECRET")
	body := image + formText("model", "m") + formText("prompt", "a SECRET") + formText("user", "u") + "--B--"
	want := image + formText("model", "m") + formText("prompt", "a <X>") + formText("user", "u") + "--B--"
	if got, status, refused := edit(t, client, body); got != want {
		t.Errorf("got %q, %d %s", got, status, refused)
	}
	if asked := <-heard; !strings.Contains(asked, "a SECRET") || !strings.Contains(asked, `"u"`) || strings.Contains(asked, "IHDR") {
		t.Errorf("the guard was asked %s", asked)
	}
	for body, code := range map[string]string{
		formText("model", "m") + formText("prompt", "BLOCKED") + "--B--":    "content_filter",
		formText("model", "m") + formText("prompt_2", "x") + "--B--":        "unsupported_parameter",
		formText("model", "m") + formFile("image", "SECRET text") + "--B--": "unsupported_parameter",
	} {
		if _, status, refused := edit(t, client, body); status != 400 || !strings.Contains(refused, `"`+code+`"`) {
			t.Errorf("%.80q: got %d %s", body, status, refused)
		}
	}
}

func TestAFormPaysForItsTextsAndNotForItsImages(t *testing.T) {
	client, written := gateway(t)
	image := formFile("image", pngHead+string(make([]byte, 100_000)))
	body := image + formText("model", "m") + formText("prompt", "abcdefgh") + "--B--"
	c := begin(t, client)
	message := asked(false, ":path", "/v1/images/edits", "content-type", formType)
	list := message.GetRequestHeaders().GetHeaders()
	list.Headers = lastOfEach(list.GetHeaders())
	c.send(message, requestBody(body, true))
	c.receive()
	if got, _ := c.requestParts(len(body)); got != body {
		t.Fatalf("got %d bytes", len(got))
	}
	c.send(answered(":status", "200", "content-type", "application/json"))
	c.receive()
	c.send(responseBody(`{"created":1,"data":[{"b64_json":"AAAA"}]}`, true))
	c.receive()
	texts := `{"model":"m","prompt":"abcdefgh"}`
	if found := written.record(t); found.PromptTokens != int64(len(texts)/4) || found.CompletionTokens != 0 || !found.Estimated {
		t.Errorf("got %+v", found)
	}
}
