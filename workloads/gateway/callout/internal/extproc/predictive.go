package extproc

import (
	"net/http"
	"time"

	"gke-inference/gateway/callout/internal/limits"
	"gke-inference/gateway/callout/internal/openai"
	"gke-inference/gateway/internal/calls"
	"gke-inference/gateway/internal/paths"
)

// predictiveKind returns the kind of a request of the Open Inference Protocol.
func predictiveKind(method string, infers bool) (requestKind, *openai.Error) {
	if infers != (method == http.MethodPost) || !infers && method != http.MethodGet {
		return predictive, openai.MethodNotAllowed(method)
	}
	return predictive, nil
}

// predict admits a request to a predictive model as one request of the team. It has no tokens, so limits and
// prices of tokens do not apply to it, and its tensors pass piece by piece.
func (e *exchange) predict(now time.Time) error {
	model, _, _ := paths.Predictive(e.path)
	if !e.config.Permits(e.team, model) {
		return openai.ModelNotFound(model)
	}
	e.request.Model = model
	budget := limits.Budget{RequestsPerMinute: e.team.RequestsPerMinute}
	// nothing to settle: what it costs is known
	e.decision, _ = e.Limiter.Admit(e.stream.Context(), e.caller.Team, budget, limits.Cost{}, now)
	if !e.decision.Allowed {
		return openai.RateLimited("requests", budget.RequestsPerMinute, e.decision.Retry)
	}
	e.decided, e.sent = true, time.Now()
	return e.stream.Send(calls.RequestHeaders(upstreamMutation(e.headers, e.config, e.caller.Team, "")))
}
