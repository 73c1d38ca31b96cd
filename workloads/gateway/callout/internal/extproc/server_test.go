package extproc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	mode "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"gke-inference/gateway/callout/internal/config"
	"gke-inference/gateway/callout/internal/guard"
	"gke-inference/gateway/callout/internal/identity"
	"gke-inference/gateway/callout/internal/limits"
	"gke-inference/gateway/callout/internal/turns"
	"gke-inference/gateway/callout/internal/usage"
	"gke-inference/gateway/internal/calls"
	"gke-inference/gateway/internal/holding"
)

const file = `
region: us-central1
replicas: 1
anonymous: true
batches: true
teams: {anonymous: {models: [m], objective: batch, requests_per_minute: 2, tokens_per_minute: 1000000}}
prices: {m: {input_usd_per_million: 1000, output_usd_per_million: 2000}}
`

// bodies are limits of a small gate.
var bodies = holding.Settings{
	Limits:       holding.Limits{Bodies: 64, BodiesOfOne: 64, Bytes: 16 << 20, BytesOfOne: 16 << 20},
	MaxBodyBytes: 1 << 20, BodyTime: time.Minute,
}

type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// record waits for the only record.
func (l *lines) record(t *testing.T) usage.Record {
	t.Helper()
	for range 200 {
		l.mu.Lock()
		content := l.text.String()
		l.mu.Unlock()
		if content != "" {
			var found usage.Record
			if err := json.Unmarshal([]byte(content), &found); err != nil {
				t.Fatalf("%s: %v", content, err)
			}
			return found
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("no record")
	return usage.Record{}
}

func (l *lines) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

func gateway(t *testing.T) (extproc.ExternalProcessorClient, *lines) { return gatewayOf(t, file) }

func gatewayOf(t *testing.T, text string) (extproc.ExternalProcessorClient, *lines) {
	return gatewayWith(t, text, identity.NewSecret(""))
}

func gatewayWith(t *testing.T, text string, keys *identity.Secret) (extproc.ExternalProcessorClient, *lines) {
	client, written, _ := gatewayLimited(t, text, keys, bodies)
	return client, written
}

func gatewayLimited(
	t *testing.T, text string, keys *identity.Secret, bodies holding.Settings,
) (extproc.ExternalProcessorClient, *lines, *holding.Hold) {
	c, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	written := &lines{}
	hold := holding.New(bodies.Limits)
	metrics := usage.NewMetrics(func() (time.Duration, bool) { return 0, false }, hold)
	server := grpc.NewServer()
	extproc.RegisterExternalProcessorServer(server, &Server{
		Config: func() *config.Config { return c }, Verifier: identity.NewVerifier(keys),
		Limiter: limits.New(func() {}), Metrics: metrics, Records: usage.NewWriter(written),
		Hold: hold, Limits: bodies, ForwardedHops: 2, Guards: guard.NewClient(), Turns: turns.New(),
		Hidden: calls.Names{"endpoint-load-metrics", "server"},
	})
	listener := bufconn.Listen(1 << 20)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	dial := func(context.Context, string) (net.Conn, error) { return listener.Dial() }
	connection, err := grpc.NewClient("passthrough:///callout", grpc.WithContextDialer(dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return extproc.NewExternalProcessorClient(connection), written, hold
}

func headers(pairs ...string) *core.HeaderMap {
	found := &core.HeaderMap{}
	for at := 0; at < len(pairs); at += 2 {
		found.Headers = append(found.Headers, &core.HeaderValue{Key: pairs[at], RawValue: []byte(pairs[at+1])})
	}
	return found
}

func asked(isEnd bool, pairs ...string) *extproc.ProcessingRequest {
	head := append([]string{":method", "POST", "content-type", "application/json"}, pairs...)
	if !slices.Contains(pairs, ":path") {
		head = append(head, ":path", "/v1/completions")
	}
	return &extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestHeaders{
		RequestHeaders: &extproc.HttpHeaders{Headers: headers(head...), EndOfStream: isEnd},
	}}
}

func requestBody(part string, isEnd bool) *extproc.ProcessingRequest {
	return &extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestBody{
		RequestBody: &extproc.HttpBody{Body: []byte(part), EndOfStream: isEnd},
	}}
}

func answered(pairs ...string) *extproc.ProcessingRequest {
	return &extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_ResponseHeaders{
		ResponseHeaders: &extproc.HttpHeaders{Headers: headers(pairs...)},
	}}
}

func responseBody(part string, isEnd bool) *extproc.ProcessingRequest {
	return &extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_ResponseBody{
		ResponseBody: &extproc.HttpBody{Body: []byte(part), EndOfStream: isEnd},
	}}
}

type call struct {
	t      *testing.T
	stream extproc.ExternalProcessor_ProcessClient
	end    context.CancelFunc
}

func begin(t *testing.T, client extproc.ExternalProcessorClient) *call {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	stream, err := client.Process(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return &call{t, stream, cancel}
}

func (c *call) send(messages ...*extproc.ProcessingRequest) {
	c.t.Helper()
	for _, message := range messages {
		if err := c.stream.Send(message); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *call) receive() *extproc.ProcessingResponse {
	c.t.Helper()
	found, err := c.stream.Recv()
	if err != nil {
		c.t.Fatal(err)
	}
	if size := proto.Size(found); size > 128_000 {
		c.t.Errorf("an answer has %d bytes", size)
	}
	return found
}

// requestParts returns the body that goes upstream, and whether its end came with it.
func (c *call) requestParts(size int) (string, bool) {
	var body strings.Builder
	for {
		part := c.receive().GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse()
		body.Write(part.GetBody())
		if part.GetEndOfStream() || body.Len() >= size {
			return body.String(), part.GetEndOfStream()
		}
	}
}

func body(size int) string {
	return `{"model":"m","max_tokens":5,"prompt":"` + strings.Repeat("é", size) + `"}`
}

func TestABodyIsHeldUntilItIsCompleteAndPassesUnchanged(t *testing.T) {
	client, _ := gateway(t)
	c := begin(t, client)
	sent := body(150_000)
	half := len(sent) / 2
	c.send(asked(false, "authorization", "Bearer x", "x-gateway-inference-objective", "forged", "x-gateway-model-name", "m",
		"x-prefiller-host-port", "10.0.0.1:80", "X-LLM-D-Any", "1", "x-llm-d-slo-ttft-ms", "300", "x-llm-d-slo-tpot-ms", "40",
		"accept-encoding", "gzip", "x-request-id", "r"))
	c.send(requestBody(sent[:half], false))
	time.Sleep(20 * time.Millisecond)
	c.send(requestBody(sent[half:], false), requestBody("", true))
	mutation := c.receive().GetRequestHeaders().GetResponse().GetHeaderMutation()
	want := []string{"accept-encoding", "authorization", "x-llm-d-any", "x-prefiller-host-port"}
	if !slices.Equal(mutation.GetRemoveHeaders(), want) {
		t.Errorf("removed %v", mutation.GetRemoveHeaders())
	}
	set := map[string]string{}
	for _, option := range mutation.GetSetHeaders() {
		set[option.GetHeader().GetKey()] = string(option.GetHeader().GetRawValue())
	}
	if set["x-gateway-inference-objective"] != "batch" || set["x-gateway-inference-fairness-id"] != "anonymous" || len(set) != 4 {
		t.Errorf("set %v", set)
	}
	if got, isEnd := c.requestParts(len(sent)); got != sent || !isEnd {
		t.Errorf("%d of %d bytes passed, end %v", len(got), len(sent), isEnd)
	}
}

func TestAFilePassesPieceByPieceWithTheTeamOfItsCaller(t *testing.T) {
	client, _ := gateway(t)
	c := begin(t, client)
	head := headers(":method", "POST", ":path", "/v1/files", "content-type", "multipart/form-data; boundary=b",
		"authorization", "Bearer x", "x-gki-team", "forged", "x-gki-other", "1")
	c.send(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestHeaders{
		RequestHeaders: &extproc.HttpHeaders{Headers: head},
	}})
	mutation := c.receive().GetRequestHeaders().GetResponse().GetHeaderMutation()
	if want := []string{"authorization", "x-gki-other"}; !slices.Equal(mutation.GetRemoveHeaders(), want) {
		t.Errorf("removed %v", mutation.GetRemoveHeaders())
	}
	set := map[string]string{}
	for _, option := range mutation.GetSetHeaders() {
		set[option.GetHeader().GetKey()] = string(option.GetHeader().GetRawValue())
	}
	if set["x-gki-team"] != "anonymous" {
		t.Errorf("set %v", set)
	}
	large := strings.Repeat("x", 3<<20) // more than a prompt may have
	for at := 0; at < len(large); at += 1 << 20 {
		c.send(requestBody(large[at:at+1<<20], false))
		if got, isEnd := c.requestParts(1 << 20); len(got) != 1<<20 || isEnd {
			t.Errorf("%d bytes passed, end %v", len(got), isEnd)
		}
	}
	c.send(requestBody("", true))
	if got, isEnd := c.requestParts(1); got != "" || !isEnd {
		t.Errorf("%d bytes passed, end %v", len(got), isEnd)
	}
}

func TestTrailersEndABodyAsWell(t *testing.T) {
	client, _ := gateway(t)
	c := begin(t, client)
	c.send(asked(false), requestBody(body(3), false), &extproc.ProcessingRequest{
		Request: &extproc.ProcessingRequest_RequestTrailers{RequestTrailers: &extproc.HttpTrailers{}},
	})
	c.receive()
	if got, isEnd := c.requestParts(len(body(3))); got != body(3) || isEnd {
		t.Errorf("got %s, end %v", got, isEnd)
	}
	if c.receive().GetRequestTrailers() == nil {
		t.Error("no answer to the trailers")
	}
}

func TestARecordHasWhatTheEngineCounted(t *testing.T) {
	client, written := gateway(t)
	c := begin(t, client)
	c.send(asked(false, "x-request-id", "r-1"), requestBody(body(3), true))
	c.receive()
	c.requestParts(len(body(3)))
	c.send(answered(":status", "200", "content-type", "application/json"))
	shown := map[string]string{}
	for _, option := range c.receive().GetResponseHeaders().GetResponse().GetHeaderMutation().GetSetHeaders() {
		shown[option.GetHeader().GetKey()] = string(option.GetHeader().GetRawValue())
	}
	if shown["x-ratelimit-limit-requests"] != "2" || shown["x-ratelimit-remaining-requests"] != "1" {
		t.Errorf("got %v", shown)
	}
	answer := `{"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":5}}`
	c.send(responseBody(answer[:20], false))
	first := c.receive().GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse()
	if string(first.GetBody()) != answer[:20] {
		t.Errorf("got %s at once", first.GetBody())
	}
	c.send(responseBody(answer[20:], true))
	c.receive()
	found := written.record(t)
	found.Time, found.DurationMS = time.Time{}, 0
	want := usage.Record{RequestID: "r-1", Team: "anonymous", Model: "m", Region: "us-central1", Status: 200,
		PromptTokens: 30, CompletionTokens: 5, USD: 0.04}
	if found != want {
		t.Errorf("got %+v, want %+v", found, want)
	}
}

func TestAVideoPassesAGuardOfResponsesAndCountsItsPromptAlone(t *testing.T) {
	guards := `
models: {m: {guards: [output]}}
guards: {output: {url: "http://output:1", phases: [output], failure: closed, timeout_ms: 100}}
`
	client, written := gatewayOf(t, file+guards)
	c := begin(t, client)
	sent := `{"model":"m","prompt":"abcdefgh"}`
	c.send(asked(false, ":path", "/v1/videos/sync"), requestBody(sent, true))
	c.receive()
	c.requestParts(len(sent))
	c.send(answered(":status", "200", "content-type", "video/mp4"))
	c.receive()
	video := "\x00\x00\x00\x18ftyp{\"usage\":{\"prompt_tokens\":9}}"
	c.send(responseBody(video, true))
	passed := c.receive().GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse()
	if string(passed.GetBody()) != video {
		t.Errorf("got %q", passed.GetBody())
	}
	if found := written.record(t); found.PromptTokens != int64(len(sent)/4) || found.CompletionTokens != 0 || !found.Estimated {
		t.Errorf("got %+v", found)
	}
}

// hangUp sends a request, and disconnects after the first events of its response.
func hangUp(t *testing.T, client extproc.ExternalProcessorClient, sent string, events ...string) {
	c := begin(t, client)
	c.send(asked(false), requestBody(sent, true))
	c.receive()
	c.requestParts(len(sent))
	for at, event := range events {
		if at == 0 {
			c.send(answered(":status", "200", "content-type", "text/event-stream; charset=utf-8"))
			c.receive()
		}
		c.send(responseBody(event, false))
		c.receive()
	}
	c.end()
}

func TestAClientThatLeavesAStreamPaysForWhatItGot(t *testing.T) {
	client, written := gateway(t)
	sent := `{"model":"m","stream":true,"max_tokens":4000,"prompt":"abcdefgh"}`
	event := `data: {"id":"cmpl-1","object":"text_completion","created":1,"model":"` + strings.Repeat("m", 60) +
		`","choices":[{"index":0,"text":" word","logprobs":null,"finish_reason":null,"stop_reason":null}]}` + "\n\n"
	hangUp(t, client, sent, strings.Repeat(event, 50), strings.Repeat(event, 50))
	found := written.record(t)
	if !found.Estimated || found.CompletionTokens < 100 || found.CompletionTokens > 120 || found.PromptTokens != 2 || !found.Stream {
		t.Errorf("got %+v", found)
	}
}

func TestAStreamThatIsCutCostsWhatItsEventsReportOfAllChoices(t *testing.T) {
	client, written := gateway(t)
	sent := `{"model":"m","stream":true,"max_tokens":4000,"n":2,"prompt":"abcdefgh"}`
	event := func(index, made int) string {
		return fmt.Sprintf(`data: {"choices":[{"index":%d,"text":" a long word"}],"usage":{"prompt_tokens":7,"completion_tokens":%d}}`+"\n\n",
			index, made)
	}
	hangUp(t, client, sent, event(0, 1)+event(1, 1), event(1, 300)+event(0, 200))
	if found := written.record(t); found.Estimated || found.CompletionTokens != 500 || found.PromptTokens != 7 {
		t.Errorf("got %+v", found)
	}
}

func TestWhatAnEngineGeneratesAfterTheLastEventOfAStreamCountsAsWell(t *testing.T) {
	client, written := gateway(t)
	sent := `{"model":"m","stream":true,"max_tokens":4000,"prompt":[1,2,3]}`
	event := `data: {"choices":[{"index":0,"text":"a"}],"usage":{"prompt_tokens":3,"completion_tokens":50}}` + "\n\n"
	for number := range 2 {
		c := begin(t, client)
		c.send(asked(false), requestBody(sent, true))
		c.receive()
		c.requestParts(len(sent))
		c.send(answered(":status", "200", "content-type", "text/event-stream"))
		c.receive()
		time.Sleep(100 * time.Millisecond)
		c.send(responseBody(event, number == 0))
		c.receive()
		time.Sleep(400 * time.Millisecond)
		c.end()
		found := written.record(t)
		written.clear()
		// 50 tokens took 0.1 s, so that 0.4 s are 200
		isMore := found.Estimated && found.CompletionTokens > 80 && found.CompletionTokens < 1000
		if isFirst := !found.Estimated && found.CompletionTokens == 50; number == 0 && !isFirst || number == 1 && !isMore {
			t.Errorf("%d: got %+v", number, found)
		}
	}
}

func TestAClientThatLeavesAStreamBeforeItBeginsPaysForItsPrompt(t *testing.T) {
	client, written := gateway(t)
	hangUp(t, client, `{"model":"m","stream":true,"prompt":"abcdefgh"}`)
	if found := written.record(t); found.CompletionTokens != 0 || found.PromptTokens != 2 || found.Status != 499 {
		t.Errorf("got %+v", found)
	}
}

func TestAWholeAnswerThatNobodyWaitsForCostsItsReservationUntilTheSpeedIsMeasured(t *testing.T) {
	client, written := gateway(t)
	hangUp(t, client, `{"model":"m","max_tokens":4000,"prompt":[1,2,3]}`)
	if found := written.record(t); !found.Estimated || found.CompletionTokens != 4000 || found.PromptTokens != 3 {
		t.Errorf("got %+v", found)
	}
}

func TestAWholeAnswerThatNobodyWaitsForCostsTheTimeThatItHeldItsEngine(t *testing.T) {
	client, written := gatewayOf(t, strings.Replace(file, "requests_per_minute: 2", "requests_per_minute: 3", 1))
	c := begin(t, client)
	sent := `{"model":"m","max_tokens":4000,"prompt":[1,2,3]}`
	c.send(asked(false), requestBody(sent, true))
	c.receive()
	c.requestParts(len(sent))
	time.Sleep(200 * time.Millisecond)
	c.send(answered(":status", "200", "content-type", "application/json"))
	c.receive()
	c.send(responseBody(`{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":100}}`, true))
	c.receive()
	c.end()
	written.record(t)
	for _, hasHeaders := range []bool{false, true} {
		written.clear()
		c = begin(t, client)
		c.send(asked(false), requestBody(sent, true))
		c.receive()
		c.requestParts(len(sent))
		time.Sleep(400 * time.Millisecond)
		if hasHeaders {
			c.send(answered(":status", "200", "content-type", "application/json"))
			c.receive()
		}
		c.end()
		// 100 tokens took 0.2 s: 200 in 0.4 s
		if found := written.record(t); !found.Estimated || found.CompletionTokens < 120 || found.CompletionTokens > 1000 {
			t.Errorf("headers %v: got %+v", hasHeaders, found)
		}
	}
}

func TestARefusalEndsTheCall(t *testing.T) {
	for name, one := range map[string]struct {
		messages []*extproc.ProcessingRequest
		status   int
		code     string
	}{
		"no body":        {[]*extproc.ProcessingRequest{asked(true)}, 400, "invalid_json"},
		"other path":     {[]*extproc.ProcessingRequest{asked(true, ":path", "/metrics")}, 404, "unknown_url"},
		"adapters":       {[]*extproc.ProcessingRequest{asked(false, ":path", "/v1/load_lora_adapter")}, 404, "unknown_url"},
		"a way round":    {[]*extproc.ProcessingRequest{asked(false, ":path", "/v1//completions")}, 404, "unknown_url"},
		"other method":   {[]*extproc.ProcessingRequest{asked(false, ":method", "DELETE")}, 405, "method_not_allowed"},
		"other type":     {[]*extproc.ProcessingRequest{asked(false, "content-encoding", "gzip")}, 415, "unsupported_media_type"},
		"large":          {[]*extproc.ProcessingRequest{asked(false, "content-length", "9999999")}, 413, "request_too_large"},
		"large in parts": {[]*extproc.ProcessingRequest{asked(false), requestBody(body(400_000), false), requestBody(body(400_000), false)}, 413, "request_too_large"},
		"other model":    {[]*extproc.ProcessingRequest{asked(false), requestBody(`{"model":"n"}`, true)}, 404, "model_not_found"},
		"routed otherwise": {[]*extproc.ProcessingRequest{asked(false, "x-gateway-model-name", "n"), requestBody(body(1), true)},
			400, "model_mismatch"},
		"entry of other model": {[]*extproc.ProcessingRequest{asked(true, ":method", "GET", ":path", "/v1/models/n")}, 404, "model_not_found"},
		"too many tokens": {[]*extproc.ProcessingRequest{asked(false), requestBody(`{"model":"m","max_tokens":1000001}`, true)},
			429, "rate_limit_exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			client, written := gateway(t)
			c := begin(t, client)
			for _, message := range one.messages {
				// the last value of a header counts here: there is one of each
				if request := message.GetRequestHeaders(); request != nil {
					request.Headers.Headers = lastOfEach(request.GetHeaders().GetHeaders())
				}
				c.send(message)
			}
			found := c.receive().GetImmediateResponse()
			var answer struct{ Error struct{ Code string } }
			if err := json.Unmarshal(found.GetBody(), &answer); err != nil {
				t.Fatal(err)
			}
			if int(found.GetStatus().GetCode()) != one.status || answer.Error.Code != one.code {
				t.Errorf("got %s", found)
			}
			if _, err := c.stream.Recv(); err != io.EOF {
				t.Errorf("got %v after the refusal", err)
			}
			if record := written.record(t); record.Status != one.status || record.PromptTokens != 0 {
				t.Errorf("got %+v", record)
			}
		})
	}
}

func lastOfEach(found []*core.HeaderValue) []*core.HeaderValue {
	byName := map[string]*core.HeaderValue{}
	for _, header := range found {
		byName[header.GetKey()] = header
	}
	kept := []*core.HeaderValue{}
	for _, header := range byName {
		kept = append(kept, header)
	}
	return kept
}

func TestAModeThatPassesBodiesUnseenIsRefused(t *testing.T) {
	client, _ := gateway(t)
	c := begin(t, client)
	message := asked(false)
	message.ProtocolConfig = &extproc.ProtocolConfiguration{RequestBodyMode: mode.ProcessingMode_STREAMED}
	c.send(message)
	if _, err := c.stream.Recv(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("got %v", err)
	}
}

func TestAProbeNeedsNoCredentialAndIsNobodysRequest(t *testing.T) {
	client, written := gatewayOf(t, "region: us-central1\nreplicas: 1\nteams: {search: {models: [m]}}\nkeys: {secret: projects/p/secrets/s}\n")
	for path, passes := range map[string]bool{
		"/healthz": true, "/search/healthz": true, "/healthz?deep=1": true, "/a/b/healthz": false, "/healthz/x": false, "/v1/models": false,
	} {
		c := begin(t, client)
		head := asked(true, ":method", "GET", ":path", path, "x-gki-team", "forged")
		head.GetRequestHeaders().Headers.Headers = lastOfEach(head.GetRequestHeaders().GetHeaders().GetHeaders())
		c.send(head)
		if got := c.receive(); (got.GetRequestHeaders() != nil) != passes {
			t.Errorf("%s: got %s", path, got)
		}
	}
	c := begin(t, client)
	c.send(asked(true, ":path", "/healthz"))
	if got := c.receive().GetImmediateResponse().GetStatus().GetCode(); got == 0 {
		t.Error("a POST passes")
	}
	written.mu.Lock()
	defer written.mu.Unlock()
	if written.text.Len() > 0 {
		t.Errorf("recorded %s", written.text.String())
	}
}

func TestNoResponseHasAHeaderThatNoClientGets(t *testing.T) {
	head := []string{"content-type", "application/json", "Server", "uvicorn", "x-request-id", "r"}
	for _, status := range []string{"200", "400", "429"} { // 429 is held until its body shows where it is from
		client, _ := gateway(t)
		c := begin(t, client)
		sent := body(10)
		c.send(asked(false), requestBody(sent, true))
		c.receive()
		c.requestParts(len(sent))
		c.send(answered(append([]string{":status", status}, head...)...), responseBody(`{"error":{"message":"no"}}`, true))
		mutation := c.receive().GetResponseHeaders().GetResponse().GetHeaderMutation()
		if removed := mutation.GetRemoveHeaders(); !slices.Equal(removed, []string{"server"}) {
			t.Errorf("%s: removed %v", status, removed)
		}
	}
}

func TestTheEntryOfAModelPassesForATeamThatMayUseIt(t *testing.T) {
	client, _ := gateway(t)
	c := begin(t, client)
	head := asked(true, ":method", "GET", ":path", "/v1/models/m")
	head.GetRequestHeaders().Headers.Headers = lastOfEach(head.GetRequestHeaders().GetHeaders().GetHeaders())
	c.send(head)
	if got := c.receive(); got.GetRequestHeaders() == nil {
		t.Errorf("got %s", got)
	}
}

func TestTheListOfModelsIsTheTeams(t *testing.T) {
	client, _ := gateway(t)
	c := begin(t, client)
	head := asked(true, ":method", "GET", ":path", "/v1/models")
	head.GetRequestHeaders().Headers.Headers = lastOfEach(head.GetRequestHeaders().GetHeaders().GetHeaders())
	c.send(head)
	c.receive()
	c.send(answered(":status", "200", "content-type", "application/json", "content-length", "70", "server", "nginx"))
	removed := c.receive().GetResponseHeaders().GetResponse().GetHeaderMutation().GetRemoveHeaders()
	if !slices.Equal(removed, []string{"server", "content-length", "etag", "accept-ranges"}) {
		t.Errorf("removed %v", removed)
	}
	c.send(responseBody(`{"object":"list","data":[{"id":"n"},`, false), responseBody(`{"id":"m","owned_by":"x"}]}`, true))
	got := c.receive().GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse()
	if want := `{"data":[{"id":"m","owned_by":"x"}],"object":"list"}`; string(got.GetBody()) != want || !got.GetEndOfStream() {
		t.Errorf("got %s", got.GetBody())
	}
}

func TestTheClientIsTheAddressBeforeTheLoadBalancers(t *testing.T) {
	for forwarded, want := range map[string]string{
		"203.0.113.9, 34.1.2.3":                  "203.0.113.9",
		"10.0.0.1,198.51.100.1,203.0.113.9,34.1": "203.0.113.9",
		"203.0.113.9":                            "203.0.113.9",
		"2001:db8:1:2:3:4:5:6, 34.1.2.3":         "2001:db8:1:2::/64",
		"::ffff:203.0.113.9, 34.1.2.3":           "203.0.113.9",
		"forged text, 34.1.2.3":                  "unknown",
		"":                                       "unknown",
	} {
		if got := calls.ClientAddress(map[string][]string{"x-forwarded-for": {forwarded}}, 2); got != want {
			t.Errorf("%s: got %s, want %s", forwarded, got, want)
		}
	}
}
