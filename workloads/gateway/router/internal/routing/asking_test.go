package routing

import (
	"context"
	"errors"
	"strings"
	"testing"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"

	"gke-inference/gateway/internal/calls"
)

// oneGate replies with a model, or fails.
type oneGate struct {
	model string
	asked []map[string][]string
}

func (g *oneGate) Check(_ context.Context, call *auth.CheckRequest, _ ...grpc.CallOption) (*auth.CheckResponse, error) {
	g.asked = append(g.asked, calls.HeadersOf(call.GetAttributes().GetRequest().GetHttp().GetHeaderMap()))
	if g.model == "" {
		return nil, errors.New("away")
	}
	set := calls.Options(map[string]string{ModelHeader: g.model})
	return &auth.CheckResponse{HttpResponse: &auth.CheckResponse_OkResponse{OkResponse: &auth.OkHttpResponse{Headers: set}}}, nil
}

func TestTheGateNamesTheModelOfTheRouteAndTheBodyPassesUnchanged(t *testing.T) {
	w, gate := start(t), &oneGate{model: "small"}
	w.server.Gate = GateOf(gate, []string{"large"})
	for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/completions"} {
		body := `{"model":"large","messages":[{}],"input":"i","prompt":"p"}`
		got := w.ask(request{method: "POST", path: path, pieces: []string{body},
			headers: map[string]string{"authorization": "Bearer k", ModelHeader: "forged"}})
		if got.set[ModelHeader] != "small" || got.body != body {
			t.Errorf("%s: got %+v", path, got)
		}
	}
	for _, seen := range gate.asked {
		if strings.Join(seen[ModelHeader], " ") != "large" || strings.Join(seen["authorization"], " ") != "Bearer k" {
			t.Errorf("asked with %v", seen)
		}
	}
	asked := len(gate.asked)
	if got := w.chat(`{"model":"other","messages":[{}]}`); got.set[ModelHeader] != "other" {
		t.Errorf("got %+v", got)
	}
	got := w.ask(request{method: "POST", path: "/v1/embeddings", pieces: []string{`{"model":"large","input":"i"}`}})
	if got.set[ModelHeader] != "large" || len(gate.asked) != asked {
		t.Errorf("got %+v, asked %d times", got, len(gate.asked)-asked)
	}
}

func TestARequestKeepsItsModelIfTheGateDoesNotReply(t *testing.T) {
	w := start(t)
	w.server.Gate = GateOf(&oneGate{}, []string{"large"})
	if got := w.chat(`{"model":"large","messages":[{}]}`); got.set[ModelHeader] != "large" || got.status != 0 {
		t.Errorf("got %+v", got)
	}
}
