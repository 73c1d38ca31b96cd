package extproc

import (
	"encoding/json"
	"strconv"
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

func TestErrorsInAnotherFormGetOpenAIsWithTheirStatus(t *testing.T) {
	for name, one := range map[string]struct {
		status, body        string
		kind, code, message string
	}{
		"a body that the picker refuses": {
			"400", "inference error: BadRequest - invalid chat completions request: must have valid messages field",
			"invalid_request_error", "invalid_body", "invalid chat completions request: must have valid messages field.",
		},
		"no replica is ready": {
			"503", "inference error: ServiceUnavailable - failed to find candidate endpoints",
			"server_error", "server_error", "The model could not answer: status 503.",
		},
		"no replica is ready, in a gateway's own way": {
			"503", `{"error":{"message":"inference error: ServiceUnavailable - failed to find candidate endpoints"}}`,
			"server_error", "server_error", "The model could not answer: status 503.",
		},
		"an engine's trace": {
			"500", "Internal Server Error", "server_error", "server_error", "The model could not answer: status 500.",
		},
		"a page": {
			"404", "<html>" + strings.Repeat("x", maxErrorBytes) + "</html>",
			"invalid_request_error", "invalid_request", "The model rejected the request with status 404.",
		},
		"a path that the engine does not have": {
			"404", `{"detail":"Not Found"}`, "invalid_request_error", "unknown_url",
			"The model does not serve POST /v1/completions.",
		},
		"a field that FastAPI refuses": {
			"422", `{"detail":[{"loc":["body","n"],"msg":"Input should be a valid integer"}]}`,
			"invalid_request_error", "invalid_request", "The model rejected the request with status 422.",
		},
		"SGLang's own": {
			"400", `{"object":"error","message":"top_p must be in (0, 1], got 5","type":"BadRequestError","param":null,"code":400}`,
			"invalid_request_error", "invalid_request", "top_p must be in (0, 1], got 5",
		},
		"TGI's own": {
			"422", `{"error":"Input validation error: inputs must have less than 8 tokens","error_type":"validation"}`,
			"invalid_request_error", "invalid_request", "Input validation error: inputs must have less than 8 tokens",
		},
		"half an object": {
			"502", `{"error":`, "server_error", "server_error", "The model could not answer: status 502.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := gateway(t)
			c := begin(t, client)
			c.send(asked(false), requestBody(body(3), true))
			c.receive()
			c.requestParts(len(body(3)))
			c.send(answered(":status", one.status, "content-type", "text/html"), responseBody(one.body, true))
			found := c.receive().GetImmediateResponse()
			var answer struct {
				Error struct{ Type, Code, Message string }
			}
			if err := json.Unmarshal(found.GetBody(), &answer); err != nil {
				t.Fatalf("got %s: %v", found, err)
			}
			got := answer.Error
			if strconv.Itoa(int(found.GetStatus().GetCode())) != one.status || got.Type != one.kind || got.Code != one.code || got.Message != one.message {
				t.Errorf("got %s", found)
			}
		})
	}
}

func TestErrorsInJSONPassUnchanged(t *testing.T) {
	for name, one := range map[string]struct{ status, body string }{
		"an engine's own":        {"429", `{"error":{"message":"Model is overloaded","code":429}}`},
		"longer than what waits": {"400", `{"error":{"message":"` + strings.Repeat("x", maxErrorBytes) + `"}}`},
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
