package extproc

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"gke-inference/gateway/callout/internal/config"
	"gke-inference/gateway/callout/internal/identity"
	"gke-inference/gateway/callout/internal/limits"
)

const spending = `
region: us-central1
replicas: 1
keys: {secret: projects/p/secrets/s}
teams:
  batches: {models: ["*"], objective: batch, acts_for_teams: true}
  red:
    models: [large, small]
    monthly_usd: 0.01
    when_spent: {model: small, replaces: [large], monthly_usd: 0.01}
prices:
  large: {input_usd_per_million: 1000, output_usd_per_million: 2000}
  small: {input_usd_per_million: 100, output_usd_per_million: 100}
`

// routedFor asks as the body router does.
func routedFor(t *testing.T, s *Server, model string, pairs ...string) string {
	t.Helper()
	call := &auth.CheckRequest{Attributes: &auth.AttributeContext{Request: &auth.AttributeContext_Request{
		Http: &auth.AttributeContext_HttpRequest{HeaderMap: headers(append(pairs, modelHeader, model)...)},
	}}}
	answer, err := s.Check(context.Background(), call)
	if err != nil {
		t.Fatal(err)
	}
	return valueOf(answer.GetOkResponse().GetHeaders(), modelHeader)
}

func TestTheRouterIsToldOfTheCheaperModelOnceTheBudgetOfTheTeamIsSpent(t *testing.T) {
	withKeys(t, map[string]string{"bbbbbbbb": "batches", "rrrrrrrr": "red"})
	c, err := config.Parse([]byte(spending))
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{
		Config: func() *config.Config { return c }, Verifier: identity.NewVerifier(readKeys(t)), Limiter: limits.New(func() {}),
	}
	red := []string{"authorization", "Bearer " + keyOf("rrrrrrrr")}
	if got := routedFor(t, s, "large", red...); got != "large" {
		t.Errorf("the budget is not spent: got %q", got)
	}
	team := c.Teams["red"]
	s.Limiter.Admit(t.Context(), "red", limits.BudgetOf(team, "large"), limits.Cost{Tokens: 1, NanoUSD: 20_000_000}, time.Now())
	for name, one := range map[string]struct {
		model, want string
		headers     []string
	}{
		"its own key":        {"large", "small", red},
		"a key of Anthropic": {"large", "small", []string{"x-api-key", keyOf("rrrrrrrr")}},
		"a worker":           {"large", "small", []string{"authorization", "Bearer " + keyOf("bbbbbbbb"), identity.BehalfHeader, "red"}},
		"the worker's own":   {"large", "large", []string{"authorization", "Bearer " + keyOf("bbbbbbbb")}},
		"a wrong key":        {"large", "large", []string{"authorization", "Bearer " + keyOf("xxxxxxxx")}},
		"no key":             {"large", "large", nil},
		"the model itself":   {"small", "small", red},
		"an unknown model":   {"other", "other", red},
	} {
		if got := routedFor(t, s, one.model, one.headers...); got != one.want {
			t.Errorf("%s: got %q, want %q", name, got, one.want)
		}
	}
}

// spent returns a gateway whose team has spent its budget with one answer of the large model.
func spent(t *testing.T) (ask func(path, model, routed string) *call, written *lines) {
	withKeys(t, map[string]string{"rrrrrrrr": "red"})
	client, written := gatewayWith(t, spending, readKeys(t))
	ask = func(path, model, routed string) *call {
		c := begin(t, client)
		c.send(asked(false, ":path", path, "authorization", "Bearer "+keyOf("rrrrrrrr"), modelHeader, routed))
		c.send(requestBody(`{"prompt":"p","messages":[],"model":"`+model+`","max_tokens":5}`, true))
		return c
	}
	first := ask("/v1/completions", "large", "large")
	first.receive()
	first.requestParts(1)
	first.send(answered(":status", "200", "content-type", "application/json"))
	first.receive()
	first.send(responseBody(`{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":0}}`, true))
	first.receive()
	if found := written.record(t); found.USD != 0.01 || found.InsteadOf != "" {
		t.Errorf("got %+v", found)
	}
	written.clear()
	return ask, written
}

func TestTheCheaperModelAnswersAndIsPaidOnceTheBudgetIsSpent(t *testing.T) {
	ask, written := spent(t)
	for _, path := range []string{"/v1/completions", "/v1/chat/completions", "/v1/messages", "/v1/responses"} {
		c := ask(path, "large", "small")
		removed := c.receive().GetRequestHeaders().GetResponse().GetHeaderMutation().GetRemoveHeaders()
		if !slices.Contains(removed, contentLength) {
			t.Errorf("%s: the length is that of the old body: removed %v", path, removed)
		}
		if body, _ := c.requestParts(1); !strings.Contains(body, `"model":"small"`) || strings.Contains(body, "large") {
			t.Errorf("%s: got %s", path, body)
		}
		c.send(answered(":status", "200", "content-type", "application/json"))
		shown := c.receive().GetResponseHeaders().GetResponse().GetHeaderMutation().GetSetHeaders()
		if got := valueOf(shown, insteadOfHeader); got != "large" {
			t.Errorf("%s: the answer is not marked: %q", path, got)
		}
		c.send(responseBody(`{"usage":{"prompt_tokens":9,"completion_tokens":1,"input_tokens":9,"output_tokens":1}}`, true))
		c.receive()
		found := written.record(t)
		if found.Model != "small" || found.InsteadOf != "large" || found.USD != 0.001 || found.Status != 200 {
			t.Errorf("%s: got %+v", path, found)
		}
		written.clear()
	}
}

func TestTheCheaperModelHasALimitOfItsOwnAndOthersAreRefused(t *testing.T) {
	ask, _ := spent(t)
	fault := func(c *call) (int32, string) {
		answer := c.receive().GetImmediateResponse()
		return int32(answer.GetStatus().GetCode()), answer.GetDetails() + valueOf(answer.GetHeaders().GetSetHeaders(), "retry-after")
	}
	late, _ := fault(ask("/v1/completions", "large", "large"))
	if late != 429 {
		t.Errorf("a request that was routed too early: got %d", late)
	}
	if _, details := fault(ask("/v1/completions", "large", "large")); details != "gke_inference_callout_rate_limit_exceeded1" {
		t.Errorf("it must be retried at once: got %s", details)
	}
	if status, details := fault(ask("/v1/completions", "small", "large")); status != 400 || details != "gke_inference_callout_model_mismatch" {
		t.Errorf("the other way round: got %d %s", status, details)
	}
	c := ask("/v1/completions", "small", "small") // direct, and beyond the budget as well
	c.receive()
	c.requestParts(1)
	c.send(answered(":status", "200", "content-type", "application/json"))
	c.receive()
	c.send(responseBody(`{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":0}}`, true))
	c.receive()
	for _, model := range []string{"large", "small"} {
		status, details := fault(ask("/v1/completions", model, "small"))
		if status != 429 || !strings.HasPrefix(details, "gke_inference_callout_insufficient_quota") {
			t.Errorf("%s: both limits are used: got %d %s", model, status, details)
		}
	}
}
