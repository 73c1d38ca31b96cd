package extproc

import (
	"strings"
	"testing"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
)

const infer = "/v2/models/m/infer"

func TestTensorsPassPieceByPieceAndCountAsOneRequestWithoutTokens(t *testing.T) {
	client, written := gateway(t)
	c := begin(t, client)
	c.send(asked(false, ":path", infer, "content-type", "application/octet-stream", "x-gateway-model-name", "m"))
	if c.receive().GetRequestHeaders() == nil {
		t.Fatal("the headers must pass before the body")
	}
	for at, piece := range []string{`{"inputs":[]}`, "\x00\x01"} {
		c.send(requestBody(piece, at == 1))
		if got, isEnd := c.requestParts(len(piece)); got != piece || isEnd != (at == 1) {
			t.Errorf("got %q, end %v", got, isEnd)
		}
	}
	c.send(answered(":status", "400", "content-type", "application/json"))
	set := map[string]string{}
	for _, option := range c.receive().GetResponseHeaders().GetResponse().GetHeaderMutation().GetSetHeaders() {
		set[option.GetHeader().GetKey()] = string(option.GetHeader().GetRawValue())
	}
	if set["x-ratelimit-remaining-requests"] != "1" || set["x-ratelimit-limit-tokens"] != "" {
		t.Errorf("limits: got %v", set)
	}
	fault := `{"error":"unexpected inference input 'x' for model 'm'"}`
	c.send(responseBody(fault, true))
	if got := string(c.receive().GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse().GetBody()); got != fault {
		t.Errorf("an error of the server must pass unchanged: got %s", got)
	}
	c.end()
	record := written.record(t)
	if record.Model != "m" || record.Status != 400 || record.PromptTokens+record.CompletionTokens != 0 || record.USD != 0 {
		t.Errorf("got %+v", record)
	}
}

func TestPredictiveModelsHaveTheRequestLimitAndTheModelsOfTheTeam(t *testing.T) {
	client, _ := gateway(t)
	for _, one := range []struct {
		method, path string
		status       int32
		message      string
	}{
		{"POST", "/v2/models/other/infer", 404, "{\"error\":\"The model `other` does not exist"},
		{"GET", infer, 405, "{\"error\":\"The method GET"},
		{"POST", "/v2/models/m/config", 405, "{\"error\":\"The method POST"},
		{"POST", "/v2/repository/models/m/load", 404, "{\"error\":\"Unknown request URL"},
		{"POST", "/v2/models/m/trace/setting", 404, "{\"error\":\"Unknown request URL"},
		{"GET", "/v2/models/m/versions/1/stats", 404, "{\"error\":\"Unknown request URL"},
		{"GET", "/v2/models/m", 0, ""},
		{"GET", "/v2/models/m/ready", 0, ""},
		{"POST", infer, 429, "{\"error\":\"Rate limit reached"},
	} {
		c := begin(t, client)
		c.send(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_RequestHeaders{
			RequestHeaders: &extproc.HttpHeaders{
				Headers: headers(":method", one.method, ":path", one.path), EndOfStream: true,
			},
		}})
		answer := c.receive().GetImmediateResponse()
		if got := int32(answer.GetStatus().GetCode()); got != one.status || !strings.HasPrefix(string(answer.GetBody()), one.message) {
			t.Errorf("%s %s: got %d %s", one.method, one.path, got, answer.GetBody())
		}
		c.end()
	}
}

const inferCall = "/inference.GRPCInferenceService/ModelInfer"

// message returns a call's message that names a model.
func message(model string) string {
	return string(append([]byte{0, 0, 0, 0, byte(len(model) + 2), 0x0a, byte(len(model))}, model...))
}

func called(path string, more ...string) *extproc.ProcessingRequest {
	return asked(false, append([]string{":path", path, "content-type", "application/grpc", "te", "trailers"}, more...)...)
}

func TestAGRPCCallIsARequestWhoseRecordHasTheStatusOfItsTrailers(t *testing.T) {
	client, written := gateway(t)
	c := begin(t, client)
	c.send(called(inferCall, "x-gateway-model-name", "m"), requestBody(message("m")[:6], false), requestBody(message("m")[6:], true))
	if c.receive().GetRequestHeaders() == nil {
		t.Fatal("the headers must pass once the model is known")
	}
	if got, isEnd := c.requestParts(len(message("m"))); got != message("m") || !isEnd {
		t.Errorf("got %q, end %v", got, isEnd)
	}
	c.send(answered(":status", "200", "content-type", "application/grpc"))
	c.receive()
	c.send(&extproc.ProcessingRequest{Request: &extproc.ProcessingRequest_ResponseTrailers{
		ResponseTrailers: &extproc.HttpTrailers{Trailers: headers("grpc-status", "3")},
	}})
	if c.receive().GetResponseTrailers() == nil {
		t.Error("the trailers must pass")
	}
	c.end()
	if record := written.record(t); record.Model != "m" || record.Status != 400 {
		t.Errorf("got %+v", record)
	}
}

func TestAGRPCCallIsRefusedWithAStatusOfGRPC(t *testing.T) {
	for _, one := range []struct {
		name, path, body string
		routed           string
		code             codes.Code
	}{
		{"another team's model", inferCall, message("other"), "", codes.NotFound},
		{"a model that the router did not read", inferCall, message("m"), "other", codes.InvalidArgument},
		{"no protobuf", inferCall, "\x00\x00\x00\x00\x01\xff", "", codes.InvalidArgument},
		{"a large message", inferCall, "\x00\x10\x00\x00\x00", "", codes.ResourceExhausted},
		{"a compressed message", inferCall, "\x01\x00\x00\x00\x01a", "", codes.Unimplemented},
		{"a stream", "/inference.GRPCInferenceService/ModelStreamInfer", "", "", codes.Unimplemented},
	} {
		client, _ := gateway(t)
		c := begin(t, client)
		more := []string{}
		if one.routed != "" {
			more = append(more, "x-gateway-model-name", one.routed)
		}
		c.send(called(one.path, more...))
		if one.body != "" {
			_ = c.stream.Send(requestBody(one.body, true)) // refused before
		}
		answer := c.receive().GetImmediateResponse()
		if answer == nil || codes.Code(answer.GetGrpcStatus().GetStatus()) != one.code {
			t.Errorf("%s: got %+v", one.name, answer)
		}
	}
}

func TestAServersGRPCCallsNeedAKeyAndAreNoRequestOfTheTeam(t *testing.T) {
	client, written := gateway(t)
	c := begin(t, client)
	c.send(called("/inference.GRPCInferenceService/ServerReady"))
	if c.receive().GetRequestHeaders() == nil {
		t.Fatal("the headers must pass")
	}
	c.send(answered(":status", "200"))
	for _, option := range c.receive().GetResponseHeaders().GetResponse().GetHeaderMutation().GetSetHeaders() {
		if strings.HasPrefix(option.GetHeader().GetKey(), "x-ratelimit") {
			t.Errorf("got %v", option)
		}
	}
	c.end()
	if record := written.record(t); record.Model != "" {
		t.Errorf("got %+v", record)
	}
}
