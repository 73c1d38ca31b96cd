package extproc

import (
	"strings"
	"testing"
)

const hello = `{"model":"m","max_tokens":20,"messages":[{"role":"user","content":"hi"}]}`

func TestAMessageIsChargedWithTheTokensOfTheCache(t *testing.T) {
	client, written := gateway(t)
	c := begin(t, client)
	c.send(asked(false, ":path", "/v1/messages"), requestBody(hello, true))
	c.receive()
	c.requestParts(len(hello))
	c.send(answered(":status", "200", "content-type", "application/json"))
	headers := c.receive().GetResponseHeaders().GetResponse().GetHeaderMutation().GetSetHeaders()
	found := map[string]string{}
	for _, one := range headers {
		found[one.GetHeader().GetKey()] = string(one.GetHeader().GetRawValue())
	}
	if found["anthropic-ratelimit-requests-limit"] != "2" || !strings.HasSuffix(found["anthropic-ratelimit-tokens-reset"], "Z") {
		t.Errorf("got %v", found)
	}
	body := `{"type":"message","content":[],"usage":{"input_tokens":7,"output_tokens":3,"cache_read_input_tokens":5}}`
	c.send(responseBody(body, true))
	c.receive()
	if record := written.record(t); record.PromptTokens != 12 || record.CachedTokens != 5 || record.CompletionTokens != 3 || record.Estimated {
		t.Errorf("got %+v", record)
	}
}

func TestAMessageThatItsClientLeavesCostsItsPromptAndWhatItDelivered(t *testing.T) {
	client, written := gateway(t)
	c := begin(t, client)
	streamed := strings.Replace(hello, "{", `{"stream":true,`, 1)
	c.send(asked(false, ":path", "/v1/messages"), requestBody(streamed, true))
	c.receive()
	c.requestParts(len(streamed))
	c.send(answered(":status", "200", "content-type", "text/event-stream"))
	c.receive()
	first := `data: {"type":"message_start","message":{"usage":{"input_tokens":7,"output_tokens":0}}}` + "\n\n"
	delta := `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"word"}}` + "\n\n"
	c.send(responseBody(first+delta+delta, false))
	c.receive()
	c.end()
	if record := written.record(t); record.PromptTokens != 7 || record.CompletionTokens != 2 || !record.Estimated {
		t.Errorf("got %+v", record)
	}
}

func TestCountingTokensIsARequestThatCostsNoTokens(t *testing.T) {
	client, written := gateway(t)
	c := begin(t, client)
	c.send(asked(false, ":path", "/v1/messages/count_tokens"), requestBody(hello, true))
	c.receive()
	c.requestParts(len(hello))
	c.send(answered(":status", "200", "content-type", "application/json"), responseBody(`{"input_tokens":7}`, true))
	c.receive()
	c.receive()
	if record := written.record(t); record.PromptTokens != 0 || record.USD != 0 || record.Estimated || record.Model != "m" {
		t.Errorf("got %+v", record)
	}
}

func TestErrorsOfMessagesHaveAnthropicsForm(t *testing.T) {
	for status, one := range map[string]struct{ body, kind, message string }{
		"400": {`{"type":"error","error":{"type":"BadRequestError","message":"too long"}}`, "invalid_request_error", "too long"},
		"404": {`{"detail":"Not Found"}`, "not_found_error", "The model does not serve POST /v1/messages."},
		"422": {`{"error":{"message":"1 validation error","type":"Bad Request","code":422}}`, "invalid_request_error", "1 validation error"},
		"500": {"Internal Server Error", "api_error", "The model could not answer: status 500."},
	} {
		client, _ := gateway(t)
		c := begin(t, client)
		c.send(asked(false, ":path", "/v1/messages"), requestBody(hello, true))
		c.receive()
		c.requestParts(len(hello))
		c.send(answered(":status", status, "content-type", "application/json"), responseBody(one.body, true))
		want := `{"error":{"message":"` + one.message + `","type":"` + one.kind + `"},"type":"error"}`
		if got := string(c.receive().GetImmediateResponse().GetBody()); got != want {
			t.Errorf("%s: got %s", status, got)
		}
	}
}

func TestAnErrorOfAMessageThatIsTooLongToReadHasAnthropicsForm(t *testing.T) {
	client, _ := gateway(t)
	c := begin(t, client)
	c.send(asked(false, ":path", "/v1/messages"), requestBody(hello, true))
	c.receive()
	c.requestParts(len(hello))
	long := `{"error":{"message":"` + strings.Repeat("x", maxErrorBytes)
	c.send(answered(":status", "400", "content-type", "application/json"), responseBody(long, false))
	want := `{"error":{"message":"The model rejected the request with status 400.","type":"invalid_request_error"},"type":"error"}`
	if got := string(c.receive().GetImmediateResponse().GetBody()); got != want {
		t.Errorf("got %s", got)
	}
}

func TestTheGatesOwnRefusalOfAMessageHasAnthropicsForm(t *testing.T) {
	client, _ := gateway(t)
	c := begin(t, client)
	unknown := strings.Replace(hello, `"m"`, `"other"`, 1)
	c.send(asked(false, ":path", "/v1/messages"), requestBody(unknown, true))
	found := c.receive().GetImmediateResponse()
	if found.GetStatus().GetCode() != 404 || !strings.Contains(string(found.GetBody()), `"type":"not_found_error"`) {
		t.Errorf("got %s", found)
	}
}
