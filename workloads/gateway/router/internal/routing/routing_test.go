package routing

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"gke-inference/gateway/internal/holding"
)

const maxBody = 8 << 20

var limits = holding.Limits{Bodies: 1024, BodiesOfOne: 256, Bytes: 160 << 20, BytesOfOne: 64 << 20}

type world struct {
	t      *testing.T
	server *Server
	grpc   *grpc.Server
	client extproc.ExternalProcessorClient
}

func start(t *testing.T) *world {
	hold := holding.New(limits)
	server := &Server{
		Hold: hold, Metrics: NewMetrics(hold), ForwardedHops: 2,
		Limits: holding.Settings{Limits: limits, MaxBodyBytes: maxBody, BodyTime: time.Minute},
	}
	listener := bufconn.Listen(1 << 20)
	made := grpc.NewServer()
	extproc.RegisterExternalProcessorServer(made, server)
	go made.Serve(listener)
	t.Cleanup(made.Stop)
	connection, err := grpc.NewClient("passthrough:router",
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return listener.Dial() }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return &world{t: t, server: server, grpc: made, client: extproc.NewExternalProcessorClient(connection)}
}

// answer is what the gateway would do with a request.
type answer struct {
	status  int
	code    string
	set     map[string]string
	removed []string
	body    string
	ended   bool
	clears  bool
}

type request struct {
	method, path string
	headers      map[string]string
	pieces       []string
	isUnfinished bool
}

func (w *world) begin(r request) extproc.ExternalProcessor_ProcessClient {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w.t.Cleanup(cancel)
	return w.beginIn(ctx, r)
}

func (w *world) beginIn(ctx context.Context, r request) extproc.ExternalProcessor_ProcessClient {
	w.t.Helper()
	stream, err := w.client.Process(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	headers := map[string]string{
		":method": r.method, ":path": r.path, "content-type": "application/json", "x-forwarded-for": "192.0.2.1, 192.0.2.9",
	}
	for name, value := range r.headers {
		headers[name] = value
	}
	message := &extproc.HttpHeaders{Headers: &core.HeaderMap{}, EndOfStream: len(r.pieces) == 0 && !r.isUnfinished}
	for name, value := range headers {
		message.Headers.Headers = append(message.Headers.Headers, &core.HeaderValue{Key: name, RawValue: []byte(value)})
	}
	_ = stream.Send(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestHeaders{RequestHeaders: message}})
	for i, piece := range r.pieces {
		last := i == len(r.pieces)-1 && !r.isUnfinished
		if stream.Send(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestBody{
			RequestBody: &extproc.HttpBody{Body: []byte(piece), EndOfStream: last},
		}}) != nil {
			break // refused before
		}
	}
	if !r.isUnfinished {
		_ = stream.CloseSend()
	}
	return stream
}

func (w *world) ask(r request) answer {
	w.t.Helper()
	stream, got := w.begin(r), answer{set: map[string]string{}}
	for {
		message, err := stream.Recv()
		if err == io.EOF {
			return got
		}
		if err != nil {
			w.t.Fatal(err)
		}
		switch reply := message.GetResponse().(type) {
		case *extproc.ProcessingResponse_RequestHeaders:
			common := reply.RequestHeaders.GetResponse()
			got.clears = common.GetClearRouteCache()
			for _, option := range common.GetHeaderMutation().GetSetHeaders() {
				got.set[option.GetHeader().GetKey()] = string(option.GetHeader().GetRawValue())
			}
			got.removed = common.GetHeaderMutation().GetRemoveHeaders()
		case *extproc.ProcessingResponse_RequestBody:
			part := reply.RequestBody.GetResponse().GetBodyMutation().GetStreamedResponse()
			got.body += string(part.GetBody())
			got.ended = got.ended || part.GetEndOfStream()
		case *extproc.ProcessingResponse_ImmediateResponse:
			got.status = int(reply.ImmediateResponse.GetStatus().GetCode())
			got.code = strings.TrimPrefix(reply.ImmediateResponse.GetDetails(), "gke_inference_router_")
			got.body = string(reply.ImmediateResponse.GetBody())
			return got
		}
	}
}

func (w *world) chat(body string) answer {
	return w.ask(request{method: "POST", path: "/v1/chat/completions", pieces: []string{body}})
}

func TestTheModelOfABodyBecomesAHeaderAndTheBodyPassesUnchanged(t *testing.T) {
	w := start(t)
	body := `{"messages":[{"content":"` + strings.Repeat("é", 50_000) + `"}], "model":"a/b-1", "seed":7}`
	got := w.ask(request{
		method: "POST", path: "/v1/chat/completions", headers: map[string]string{ModelHeader: "forged"},
		pieces: []string{body[:1], body[1:40_001], body[40_001:]},
	})
	if got.set[ModelHeader] != "a/b-1" || !got.clears || got.body != body || !got.ended {
		t.Errorf("got %v, clears %v, %d bytes, ended %v", got.set, got.clears, len(got.body), got.ended)
	}
	if got.set["content-length"] != fmt.Sprint(len(body)) {
		t.Error(got.set)
	}
}

func TestTheQueryAndASlashAtTheEndAreNoPartOfAPromptsPath(t *testing.T) {
	w := start(t)
	for _, path := range []string{"/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/v1/completions"} {
		for _, more := range []string{"?", "?api-version=2024-10-21", "/", "/?x=1"} {
			got := w.ask(request{method: "POST", path: path + more, pieces: []string{`{"model":"m","messages":[{}],"prompt":"p","input":"i"}`}})
			if got.set[":path"] != path || got.set[ModelHeader] != "m" {
				t.Errorf("%s%s: got %+v", path, more, got)
			}
		}
	}
	if got := w.ask(request{method: "GET", path: "/v1/files?limit=2"}); len(got.set) != 0 || got.status != 0 {
		t.Errorf("the query of another path must pass, got %+v", got)
	}
}

func TestAPickerReadsMessagesAsAChat(t *testing.T) {
	w := start(t)
	for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens"} {
		got := w.ask(request{method: "POST", path: path + "?beta=true", pieces: []string{`{"model":"m","messages":[{}]}`}})
		if got.set[":path"] != path+"?picked-as=/v1/chat/completions" || got.set[ModelHeader] != "m" {
			t.Errorf("%s: got %+v", path, got)
		}
		got = w.ask(request{method: "POST", path: path, pieces: []string{`{"model":"m","messages":[]}`}})
		want := `{"error":{"message":"` + "`messages`" + ` must have at least one message.","type":"invalid_request_error"},"type":"error"}`
		if got.status != 400 || got.body != want {
			t.Errorf("%s: got %d %s", path, got.status, got.body)
		}
	}
}

func TestAResponseThatNeedsAStoredOneIsRefused(t *testing.T) {
	w := start(t)
	for fields, code := range map[string]string{
		`"previous_response_id":"resp_1"`: "previous_response_not_found", `"conversation":"c"`: "unsupported_parameter",
		`"background":true`: "unsupported_parameter", `"previous_response_id":null,"background":false,"store":true`: "",
	} {
		got := w.ask(request{method: "POST", path: "/v1/responses", pieces: []string{`{"model":"m","input":"i",` + fields + `}`}})
		if got.code != code {
			t.Errorf("%s: got %d %s", fields, got.status, got.body)
		}
	}
	if got := w.chat(`{"model":"m","messages":[{}],"background":true}`); got.status != 0 {
		t.Errorf("a field of another API must pass, got %+v", got)
	}
}

func TestWhatNoModelCanServeIsRefusedWith400(t *testing.T) {
	w := start(t)
	bodies := map[string]string{
		`{"messages":[{}]}`: "invalid_model", `{"model":null}`: "invalid_model", `{"model":7}`: "invalid_model",
		`{"model":""}`: "invalid_model", `{"model":"m","model":"m"}`: "duplicate_key", `[]`: "invalid_json",
		`{"model":"m"`: "invalid_json", `{"model":"m"} x`: "invalid_json",
		`{"model":"` + strings.Repeat("a", 257) + `"}`:    "invalid_model",
		`{"model":"` + strings.Repeat("a", 64<<10) + `"}`: "invalid_model",
		`{"model":"m","seed":9007199254740993}`:           "invalid_value",
		`{"model":"m","kv_transfer_params":{}}`:           "unsupported_parameter",
		`{"model":"m","ec_transfer_params":{}}`:           "unsupported_parameter",
		`{"model":"m","vllm_xargs":{}}`:                   "unsupported_parameter",
		`{"model":"m","request_id":"x"}`:                  "unsupported_parameter",
		`{"model":"m","priority":-1}`:                     "unsupported_parameter",
		`{"model":"m","lora_path":"sql"}`:                 "unsupported_parameter",
		`{"model":"m","lora\u005fpath":"sql"}`:            "unsupported_parameter",
		`{"model":"m","bootstrap_host":"10.0.0.9"}`:       "unsupported_parameter",
		`{"model":"m","prior\u0069ty":-1}`:                "unsupported_parameter",
		`{"model":"m"}`:                                   "missing_required_parameter",
		`{"model":"m","messages": null}`:                  "missing_required_parameter",
		`{"model":"m","messages":[ ]}`:                    "empty_array",
		`{"model":"m","messages":{}}`:                     "invalid_type",
		`{"model":"m","messages":"Hello"}`:                "invalid_type",
	}
	for _, name := range []string{
		"bootstrap_port", "bootstrap_room", "bootstrap_pair_key", "custom_labels", "custom_logit_processor", "data_parallel_rank",
		"disagg_prefill_dp_rank", "lora_id", "rid", "routed_dp_rank", "session_params",
	} {
		bodies[`{"model":"m","messages":[{}],"`+name+`":null}`] = "unsupported_parameter"
	}
	for c := range 0x20 {
		bodies[fmt.Sprintf(`{"model":"a\u%04x"}`, c)] = "invalid_model"
	}
	bodies[`{"model":"a\u007f"}`], bodies[`{"model":"a\u0085"}`] = "invalid_model", "invalid_model"
	for body, code := range bodies {
		if got := w.chat(body); got.status != 400 || got.code != code {
			t.Errorf("%.60s: got %d %s", body, got.status, got.code)
		}
	}
	got := w.ask(request{method: "POST", path: "/v1/completions", pieces: []string{`{"model":"m","prompt":[[1,2],[3]]}`}})
	if got.status != 400 || !strings.Contains(got.body, `"param":"prompt"`) {
		t.Errorf("a prompt of tokens: got %d %s", got.status, got.body)
	}
	for _, one := range [][3]string{
		{"/v1/completions", `{"model":"m"}`, "missing_required_parameter"},
		{"/v1/completions", `{"model":"m","prompt":[]}`, "invalid_value"},
		{"/v1/completions", `{"model":"m","prompt":""}`, "invalid_value"},
		{"/v1/responses", `{"model":"m","input":null}`, "missing_required_parameter"},
	} {
		if got := w.ask(request{method: "POST", path: one[0], pieces: []string{one[1]}}); got.status != 400 || got.code != one[2] {
			t.Errorf("%s %s: got %d %s", one[0], one[1], got.status, got.code)
		}
	}
	tools := `{"model":"m","messages":[{}],"tools":[{"function":{"parameters":{"maximum":9223372036854775807}}}]}`
	if got := w.chat(tools); got.status != 0 || got.body != tools {
		t.Errorf("bounds of a schema must pass, got %+v", got)
	}
}

func TestABodyOverTheLimitIsRefusedByItsLengthOrWhenItPassesIt(t *testing.T) {
	w := start(t)
	if got := w.ask(request{
		method: "POST", path: "/v1/chat/completions", isUnfinished: true,
		headers: map[string]string{"content-length": fmt.Sprint(maxBody + 1)},
	}); got.status != 413 {
		t.Errorf("by its length: got %+v", got)
	}
	pieces := []string{`{"model":"m","messages":[[]`}
	for range 64 << 20 / (60 << 10) {
		pieces = append(pieces, strings.Repeat(",[]", 20<<10))
	}
	if got := w.ask(request{method: "POST", path: "/v1/chat/completions", pieces: pieces}); got.status != 413 {
		t.Errorf("without a length: got %d %s", got.status, got.code)
	}
	if bodies, bytes := w.server.Hold.Held(); bodies != 0 || bytes != 0 {
		t.Errorf("%d bodies and %d bytes are left", bodies, bytes)
	}
}

func TestHalfSentBodiesAreLimitedAndASmallRequestOfTheSameClientPasses(t *testing.T) {
	w := start(t)
	piece := strings.Repeat(" ", 64<<10)
	pieces := []string{`{"model":"m","messages":[{}`}
	for range 7 << 20 / len(piece) {
		pieces = append(pieces, piece)
	}
	done := make(chan struct{})
	for range 40 {
		go func() {
			w.begin(request{method: "POST", path: "/v1/chat/completions", pieces: pieces, isUnfinished: true})
			done <- struct{}{}
		}()
	}
	for range 40 {
		<-done
	}
	began := time.Now()
	if got := w.chat(`{"model":"m","messages":[{}]}`); got.set[ModelHeader] != "m" || time.Since(began) > 2*time.Second {
		t.Errorf("got %+v after %s", got, time.Since(began))
	}
	if _, bytes := w.server.Hold.Held(); bytes > limits.BytesOfOne {
		t.Errorf("one client holds %d bytes", bytes)
	}
	large := request{method: "POST", path: "/v1/chat/completions", pieces: append(pieces, `]}`)}
	if got := w.ask(large); got.status != 429 || got.code != holding.TooManyCode {
		t.Errorf("a large request of the same client: got %d %s", got.status, got.code)
	}
}

func TestARequestWithoutACredentialIsRefusedBeforeItsBodyIfOneIsNeeded(t *testing.T) {
	w := start(t)
	w.server.Credentials = []string{"authorization", "x-api-key"}
	for _, path := range []string{"/v1/chat/completions", "/v1/messages"} {
		if got := w.ask(request{path: path, isUnfinished: true}); got.status != 401 || got.code != "invalid_api_key" && path != "/v1/messages" {
			t.Errorf("%s: got %d %s", path, got.status, got.code)
		}
	}
	if bodies, bytes := w.server.Hold.Held(); bodies != 0 || bytes != 0 {
		t.Errorf("holds %d bodies of %d bytes", bodies, bytes)
	}
	keyed := request{headers: map[string]string{"x-api-key": "k"}, pieces: []string{`{"model":"m"}`}}
	if got := w.ask(keyed); got.set[ModelHeader] != "m" {
		t.Errorf("with a key: got %+v", got)
	}
}

func TestABodyThatDoesNotArriveInTimeIsRefused(t *testing.T) {
	w := start(t)
	w.server.Limits.BodyTime = 50 * time.Millisecond
	got := w.ask(request{method: "POST", path: "/v1/chat/completions", pieces: []string{`{"model":`}, isUnfinished: true})
	if got.status != 408 || got.code != "request_timeout" {
		t.Errorf("got %+v", got)
	}
}

func TestARequestThatAsksForAnotherProtocolIsRefusedBeforeItsBody(t *testing.T) {
	w := start(t)
	for _, path := range []string{"/v1/chat/completions", "/v1/rerank"} {
		got := w.ask(request{
			method: "POST", path: path, headers: map[string]string{"upgrade": "websocket"}, isUnfinished: true,
		})
		if got.status != 400 || got.code != "unsupported_header" {
			t.Errorf("%s: got %+v", path, got)
		}
	}
}

func TestARequestForAnAnswerMustHaveABody(t *testing.T) {
	got := start(t).ask(request{method: "POST", path: "/v1/chat/completions"})
	if got.status != 400 || got.code != "invalid_json" {
		t.Errorf("got %+v", got)
	}
}

func TestTheServerEndsAfterClientsLeftInTheMiddleOfTheirRequests(t *testing.T) {
	w := start(t)
	for i := range 200 {
		ctx, cancel := context.WithCancel(context.Background())
		w.beginIn(ctx, request{
			method: "POST", path: "/v1/chat/completions", pieces: []string{`{"model":`}, isUnfinished: i%2 == 0,
		})
		cancel()
	}
	ended := make(chan struct{})
	go func() { w.grpc.GracefulStop(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("calls of clients that left have not ended")
	}
	if bodies, bytes := w.server.Hold.Held(); bodies != 0 || bytes != 0 {
		t.Errorf("%d bodies and %d bytes are still held", bodies, bytes)
	}
}

func TestABodyThatIsNotJSONPassesOnOtherPaths(t *testing.T) {
	w := start(t)
	form := strings.Repeat("--boundary\r\n\x00\xff", 100_000)
	got := w.ask(request{
		method: "POST", path: "/v1/files",
		headers: map[string]string{"content-type": "multipart/form-data; boundary=boundary", ModelHeader: "forged"},
		pieces:  []string{form[:10], form[10:]},
	})
	if got.body != form || !got.ended || got.set[ModelHeader] != "" || len(got.removed) != 1 {
		t.Errorf("got %d bytes, ended %v, %v, %v", len(got.body), got.ended, got.set, got.removed)
	}
}

func TestAPathOfThePredictiveProtocolNamesTheModelAndItsBodyPassesUnread(t *testing.T) {
	w := start(t)
	got := w.ask(request{
		method: "POST", path: "/v2/models/fraud/infer", pieces: []string{`{"model":"other","inputs":[`, "\x00\xff"},
		headers: map[string]string{"x-gateway-model-name": "other"},
	})
	if got.status != 0 || got.set["x-gateway-model-name"] != "fraud" || !got.clears || !got.ended {
		t.Errorf("got %+v", got)
	}
	if got.body != `{"model":"other","inputs":[`+"\x00\xff" {
		t.Errorf("the body must pass unchanged, got %q", got.body)
	}
	for _, path := range []string{"/v2/models/fraud/trace/setting", "/v2/repository/models/fraud/load", "/v2/models//infer"} {
		if other := w.ask(request{method: "POST", path: path}); other.set["x-gateway-model-name"] != "" {
			t.Errorf("%s: got %+v", path, other)
		}
	}
}

func TestAGRPCCallIsHeldUntilItsMessageNamesTheModelAndPassesUnchanged(t *testing.T) {
	w := start(t)
	const service = "/inference.GRPCInferenceService/"
	tensors := strings.Repeat("\x0a\x01", 70_000)
	field := "\x3a" + string(binary.AppendUvarint(nil, uint64(len(tensors)))) + tensors
	message := "\x0a\x05fraud" + field
	body := "\x00" + string(binary.BigEndian.AppendUint32(nil, uint32(len(message)))) + message
	got := w.ask(request{
		method: "POST", path: service + "ModelInfer", pieces: []string{body[:3], body[3:9], body[9:40_000], body[40_000:]},
		headers: map[string]string{ModelHeader: "forged"},
	})
	if got.status != 0 || got.set[ModelHeader] != "fraud" || !got.clears || !got.ended || got.body != body {
		t.Errorf("got %v, status %d, %d bytes, ended %v", got.set, got.status, len(got.body), got.ended)
	}
	if _, has := got.set["content-length"]; has {
		t.Error("a gRPC call has no length")
	}
	for _, one := range []struct {
		name, body string
		status     int
	}{
		{"no model", "\x00\x00\x00\x00\x00", 400},
		{"JSON", `{"model":"fraud"}`, 415},
		{"too large", "\x00\xff\xff\xff\xff", 413},
		{"two models", "\x00\x00\x00\x00\x06\x0a\x01a\x0a\x01b", 400},
	} {
		refused := w.ask(request{method: "POST", path: service + "ModelInfer", pieces: []string{one.body}})
		if refused.status != one.status || strings.HasPrefix(refused.body, "{") {
			t.Errorf("%s: got %+v", one.name, refused)
		}
	}
	for _, call := range []string{"ServerReady", "RepositoryModelLoad"} {
		other := w.ask(request{
			method: "POST", path: service + call, pieces: []string{"\x00\x00\x00\x00\x00"}, headers: map[string]string{ModelHeader: "forged"},
		})
		if other.status != 0 || other.set[ModelHeader] != "" || len(other.removed) != 1 {
			t.Errorf("%s: got %+v", call, other)
		}
	}
}
