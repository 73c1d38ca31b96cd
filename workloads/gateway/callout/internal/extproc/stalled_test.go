package extproc

import (
	"io"
	"strings"
	"testing"
	"time"
)

// stalledText reads a response until the gate ends it.
func stalledText(t *testing.T, c *call) string {
	t.Helper()
	var text strings.Builder
	for {
		message, err := c.stream.Recv()
		if err == io.EOF {
			t.Fatalf("the stream has no end: %s", text.String())
		}
		if err != nil {
			t.Fatal(err)
		}
		part := message.GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		text.Write(part.GetBody())
		if part.GetEndOfStream() {
			return text.String()
		}
	}
}

func TestAStreamWithoutAByteIsEndedWithAnErrorOfItsAPI(t *testing.T) {
	guards := "models: {m: {guards: [output]}}\nguards: {output: {url: \"http://output:1\", phases: [output], failure: open, timeout_ms: 100}}\n"
	message := "The model sent nothing for 1 seconds. Retry the request."
	said := `"messages":[{"role":"user","content":"p"}],"max_tokens":9`
	for path, one := range map[string]struct{ fields, first, last string }{
		"/v1/chat/completions": {said, `{"choices":[{"index":0,"delta":{"content":"a"}}]}`, "data: [DONE]\n\n"},
		"/v1/completions":      {`"prompt":"p","max_tokens":9`, `{"choices":[{"index":0,"text":"a"}]}`, "data: [DONE]\n\n"},
		"/v1/responses": {
			`"input":"p","max_output_tokens":9`,
			`{"type":"response.output_text.delta","item_id":"i","output_index":0,"content_index":0,"delta":"a"}`, "\n\n",
		},
		"/v1/messages": {said, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`, "\n\n"},
	} {
		for guarded, more := range map[string]string{"": "", " with a guard": guards} {
			t.Run(path+guarded, func(t *testing.T) {
				t.Parallel()
				client, written := gatewayOf(t, file+"stream_idle_seconds: 1\n"+more)
				c := begin(t, client)
				c.send(asked(false, ":path", path))
				c.send(requestBody(`{"model":"m","stream":true,`+one.fields+`}`, true))
				c.receive()
				c.requestParts(1)
				began := time.Now()
				c.send(answered(":status", "200", "content-type", "text/event-stream"))
				c.receive()
				c.send(responseBody("data: "+one.first+"\n\n", false))
				for range 3 { // pieces in time keep the stream open
					time.Sleep(500 * time.Millisecond)
					c.send(responseBody(": ping\n\n", false))
				}
				got := stalledText(t, c)
				if took := time.Since(began); took < 2500*time.Millisecond {
					t.Errorf("ended after %s", took)
				}
				if !strings.Contains(got, message) || !strings.HasSuffix(got, one.last) {
					t.Errorf("got %q", got)
				}
				if found := written.record(t); found.Status != 200 || !found.Estimated || found.CompletionTokens != 1 {
					t.Errorf("got %+v", found)
				}
			})
		}
	}
}

func TestAnAnswerThatIsNoStreamMayTakeItsTime(t *testing.T) {
	client, _ := gatewayOf(t, file+"stream_idle_seconds: 1\n")
	c := begin(t, client)
	c.send(asked(false), requestBody(body(3), true))
	c.receive()
	c.requestParts(len(body(3)))
	c.send(answered(":status", "200", "content-type", "application/json"))
	c.receive()
	time.Sleep(1500 * time.Millisecond)
	c.send(responseBody(`{"usage":{"prompt_tokens":1,"completion_tokens":1}}`, true))
	if !c.receive().GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse().GetEndOfStream() {
		t.Error("the answer did not pass")
	}
}

func TestAStreamMayTakeItsTimeUntilItsAnswerBegins(t *testing.T) {
	client, _ := gatewayOf(t, file+"stream_idle_seconds: 1\n")
	c := begin(t, client)
	c.send(asked(false, ":path", "/v1/responses"))
	c.send(requestBody(`{"model":"m","stream":true,"input":"p","max_output_tokens":9}`, true))
	c.receive()
	c.requestParts(1)
	c.send(answered(":status", "200", "content-type", "text/event-stream"))
	c.receive()
	c.send(responseBody(": waiting for a replica of the model\n\n", false))
	c.send(responseBody("event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"usage\":null}}\n\n", false))
	time.Sleep(1500 * time.Millisecond)
	const last = "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{}}\n\n"
	c.send(responseBody(last, true))
	if got := stalledText(t, c); !strings.Contains(got, "response.completed") || strings.Contains(got, "sent nothing") {
		t.Errorf("got %q", got)
	}
}

func TestNothingFollowsTheEndOfAStream(t *testing.T) {
	client, written := gatewayOf(t, file+"stream_idle_seconds: 1\n")
	c := begin(t, client)
	c.send(asked(false), requestBody(`{"model":"m","stream":true,"prompt":"p","max_tokens":9}`, true))
	c.receive()
	c.requestParts(1)
	c.send(answered(":status", "200", "content-type", "text/event-stream"))
	c.receive()
	c.send(responseBody("data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\n", false))
	c.send(responseBody("data: [DONE]\n\n", true))
	if got := stalledText(t, c); !strings.HasSuffix(got, "data: [DONE]\n\n") {
		t.Errorf("got %q", got)
	}
	time.Sleep(1500 * time.Millisecond) // the gateway still sends to a slow client
	if err := c.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if message, err := c.stream.Recv(); err != io.EOF {
		t.Errorf("got %v, %v", message, err)
	}
	if found := written.record(t); found.Status != 200 {
		t.Errorf("got %+v", found)
	}
}
