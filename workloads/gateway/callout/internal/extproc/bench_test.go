package extproc

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"

	"gke-inference/gateway/callout/internal/config"
	"gke-inference/gateway/callout/internal/identity"
	"gke-inference/gateway/callout/internal/limits"
	"gke-inference/gateway/callout/internal/usage"
	"gke-inference/gateway/internal/holding"
)

// played is a stream of calls without a network.
type played struct {
	grpc.ServerStream
	calls []*extproc.ProcessingRequest
	at    int
}

func (*played) Context() context.Context               { return context.Background() }
func (*played) Send(*extproc.ProcessingResponse) error { return nil }
func (p *played) Recv() (*extproc.ProcessingRequest, error) {
	if p.at == len(p.calls) {
		return nil, io.EOF
	}
	p.at++
	return p.calls[p.at-1], nil
}

// BenchmarkARequest measures the program's own work for one request and its response.
func BenchmarkARequest(b *testing.B) {
	unlimited := strings.NewReplacer("requests_per_minute: 2,", "", ", tokens_per_minute: 1000000", "").Replace(file)
	c, err := config.Parse([]byte(unlimited))
	if err != nil {
		b.Fatal(err)
	}
	hold := holding.New(bodies.Limits)
	server := &Server{
		Config: func() *config.Config { return c }, Verifier: identity.NewVerifier(identity.NewSecret("")),
		Limiter: limits.New(func() {}), Metrics: usage.NewMetrics(func() (time.Duration, bool) { return 0, false }, hold),
		Records: usage.NewWriter(io.Discard), Hold: hold, Limits: bodies, ForwardedHops: 2,
	}
	prompt := `{"model": "m", "max_tokens": 1, "prompt": "` + strings.Repeat("Measure what the callout adds. ", 40) + `"}`
	calls := []*extproc.ProcessingRequest{
		asked(false, "x-forwarded-for", "203.0.113.9, 34.0.0.1", "user-agent", "bench", "accept", "*/*"),
		requestBody(prompt, true),
		answered(":status", "200", "content-type", "application/json"),
		responseBody(`{"choices": [{"index": 0, "text": "x"}], "usage": {"prompt_tokens": 200, "completion_tokens": 1}}`, true),
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := server.Process(&played{calls: calls}); err != nil {
			b.Fatal(err)
		}
	}
}
