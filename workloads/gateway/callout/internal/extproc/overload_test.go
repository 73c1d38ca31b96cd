package extproc

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestThePickersAnswersOfASaturatedModelAreRateLimits(t *testing.T) {
	waited := "inference error: ServiceUnavailable - request timed out in queue: request TTL expired"
	for name, one := range map[string]struct{ status, body string }{
		"waited too long":        {"503", waited},
		"a queue is full":        {"429", "inference error: ResourceExhausted - request rejected: queue at capacity"},
		"in a gateway's own way": {"503", `{"error":{"message":"No replica can answer now: ` + waited + `"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			client, written := gateway(t)
			c := begin(t, client)
			c.send(asked(false), requestBody(body(3), true))
			c.receive()
			c.requestParts(len(body(3)))
			c.send(answered(":status", one.status, "content-type", "text/plain"))
			c.send(responseBody(one.body[:30], false), responseBody(one.body[30:], true))
			found := c.receive().GetImmediateResponse()
			var answer struct {
				Error struct{ Type, Code, Message string }
			}
			if err := json.Unmarshal(found.GetBody(), &answer); err != nil {
				t.Fatalf("got %s: %v", found, err)
			}
			shown := map[string]string{}
			for _, option := range found.GetHeaders().GetSetHeaders() {
				shown[option.GetHeader().GetKey()] = string(option.GetHeader().GetRawValue())
			}
			if found.GetStatus().GetCode() != 429 || answer.Error.Type != "requests" || answer.Error.Code != "model_overloaded" {
				t.Errorf("got %s", found)
			}
			if shown["retry-after"] != "1" || shown["content-type"] != "application/json" {
				t.Errorf("got %v", shown)
			}
			if record := written.record(t); record.Status != 429 || record.PromptTokens != 0 || record.USD != 0 {
				t.Errorf("got %+v", record)
			}
		})
	}
}

func TestOtherErrorsPassUnchanged(t *testing.T) {
	for name, one := range map[string]struct{ status, body string }{
		"no replica is ready":  {"503", "inference error: ServiceUnavailable - failed to find candidate endpoints"},
		"an engine's own":      {"429", `{"error":{"message":"Model is overloaded","code":429}}`},
		"longer than any text": {"503", strings.Repeat("x", maxErrorBytes+1)},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := gateway(t)
			c := begin(t, client)
			c.send(asked(false), requestBody(body(3), true))
			c.receive()
			c.requestParts(len(body(3)))
			c.send(answered(":status", one.status), responseBody(one.body, true))
			if first := c.receive(); first.GetResponseHeaders() == nil {
				t.Fatalf("got %s before the headers", first)
			}
			part := c.receive().GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse()
			if string(part.GetBody()) != one.body || !part.GetEndOfStream() {
				t.Errorf("got %q", part.GetBody())
			}
		})
	}
}

func TestAnErrorWithoutABodyPassesAtOnce(t *testing.T) {
	client, _ := gateway(t)
	c := begin(t, client)
	c.send(asked(false), requestBody(body(3), true))
	c.receive()
	c.requestParts(len(body(3)))
	head := answered(":status", "503")
	head.GetResponseHeaders().EndOfStream = true
	c.send(head)
	if first := c.receive(); first.GetResponseHeaders() == nil {
		t.Errorf("got %s", first)
	}
}
