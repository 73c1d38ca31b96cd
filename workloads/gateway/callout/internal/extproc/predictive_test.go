package extproc

import (
	"strings"
	"testing"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
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
