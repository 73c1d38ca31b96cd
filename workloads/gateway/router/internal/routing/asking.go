package routing

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"gke-inference/gateway/internal/calls"
	"gke-inference/gateway/internal/paths"
)

// AskTime limits the wait for the client gate. The load balancer waits for a second for this program.
const AskTime = 500 * time.Millisecond

// keepAlive notices a gate that is gone without a word. gRPC allows no shorter time.
var keepAlive = keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 2 * time.Second}

// Gate is the client gate, which knows whether the budget of a request's team is spent, and so which model answers.
type Gate struct {
	client auth.AuthorizationClient
	models map[string]bool
}

// NewGate returns a gate at HOST:PORT, which is asked about requests for some models. It is called as the load
// balancer calls it, with TLS and without a check of its certificate, which it creates at each start.
func NewGate(address string, models []string) (*Gate, error) {
	settings := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}} //nolint:gosec // self-signed
	connection, err := grpc.NewClient("dns:///"+address,
		grpc.WithTransportCredentials(credentials.NewTLS(settings)), grpc.WithKeepaliveParams(keepAlive))
	if err != nil {
		return nil, fmt.Errorf("--gate: %w", err)
	}
	return GateOf(auth.NewAuthorizationClient(connection), models), nil
}

// GateOf returns a gate behind a connection.
func GateOf(client auth.AuthorizationClient, models []string) *Gate {
	made := &Gate{client: client, models: map[string]bool{}}
	for _, model := range models {
		made.models[model] = true
	}
	return made
}

// asks reports whether another model may answer for the model of a request.
func (g *Gate) asks(path, model string) bool {
	return g != nil && g.models[model] && paths.IsText(path)
}

// modelFor returns the model that answers a request.
func (g *Gate) modelFor(ctx context.Context, headers map[string][]string, model string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, AskTime)
	defer cancel()
	sent := &core.HeaderMap{}
	for name, values := range headers {
		for _, value := range values {
			if name != ModelHeader {
				sent.Headers = append(sent.Headers, &core.HeaderValue{Key: name, RawValue: []byte(value)})
			}
		}
	}
	sent.Headers = append(sent.Headers, &core.HeaderValue{Key: ModelHeader, RawValue: []byte(model)})
	call := &auth.CheckRequest{Attributes: &auth.AttributeContext{
		Request: &auth.AttributeContext_Request{Http: &auth.AttributeContext_HttpRequest{HeaderMap: sent}},
	}}
	answer, err := g.client.Check(ctx, call, grpc.WaitForReady(true))
	if err != nil {
		return model, err
	}
	told := calls.HeadersOf(&core.HeaderMap{Headers: headersIn(answer.GetOkResponse().GetHeaders())})
	if routed := calls.First(told, ModelHeader); routed != "" {
		return routed, nil
	}
	return model, nil
}

func headersIn(options []*core.HeaderValueOption) []*core.HeaderValue {
	made := make([]*core.HeaderValue, 0, len(options))
	for _, option := range options {
		made = append(made, option.GetHeader())
	}
	return made
}
