package extproc

import (
	"context"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"gke-inference/gateway/callout/internal/identity"
	"gke-inference/gateway/callout/internal/limits"
	"gke-inference/gateway/callout/internal/openai"
	"gke-inference/gateway/internal/calls"
	"gke-inference/gateway/internal/holding"
	"gke-inference/gateway/internal/paths"
)

const (
	// insteadOfHeader is the response header with the model that the request named.
	insteadOfHeader = "x-gki-instead-of"
	// replacedPause is how long a client waits before it repeats a request that was routed too early.
	replacedPause = time.Second
)

// Check answers the body router, which asks with the headers of a request and its model before the route is
// chosen: the model in the reply is the one to route to. It admits nothing. A caller that is not known keeps the
// model, since the request will be refused where it arrives.
func (s *Server) Check(ctx context.Context, call *auth.CheckRequest) (*auth.CheckResponse, error) {
	headers := calls.HeadersOf(call.GetAttributes().GetRequest().GetHttp().GetHeaderMap())
	model := calls.First(headers, modelHeader)
	if other, is := s.replacement(ctx, headers, model, time.Now()); is {
		model = other
	}
	set := []*core.HeaderValueOption{}
	if model != "" {
		set = calls.Options(map[string]string{modelHeader: model})
	}
	return &auth.CheckResponse{HttpResponse: &auth.CheckResponse_OkResponse{
		OkResponse: &auth.OkHttpResponse{Headers: set},
	}}, nil
}

// replacement returns the model that answers a request in place of its own, if the team's budget is spent.
func (s *Server) replacement(ctx context.Context, headers map[string][]string, model string, now time.Time) (string, bool) {
	config := s.Config()
	caller, verdict := s.Verifier.Verify(config, headers, now)
	if verdict != identity.Valid {
		return "", false
	}
	name, isPermitted := identity.ActsFor(config, caller, headers)
	team := config.Teams[name]
	if !isPermitted || team == nil || !team.Replaces(model) || !config.Permits(team, model) {
		return "", false
	}
	return team.WhenSpent.Model, s.Limiter.IsSpent(ctx, name, team.MonthlyNanoUSD(), now)
}

// replaced returns the request for the model that it was routed to, if that one answers for its own. Only the body
// router sets the header of the route, and the team may use both models, so nothing else has to be checked.
func (e *exchange) replaced(request openai.Request, routed string) (openai.Request, *openai.Error) {
	isOne := e.insteadOf == "" && e.form == nil && paths.IsText(e.path) && e.team.Replaces(request.Model)
	if !isOne || routed != e.team.WhenSpent.Model || !e.config.Permits(e.team, request.Model) {
		return request, openai.ModelMismatch()
	}
	if e.held != nil && !e.held.Copy(1) {
		return request, holding.TooMany(holding.ManyBytes)
	}
	body, fault := openai.Renamed(e.body, routed)
	if fault != nil {
		return request, fault
	}
	e.body, e.insteadOf = body, request.Model
	return openai.ParseRequest(e.path, body, e.config.Size)
}

// isLate reports whether a request is refused only because the budget was spent after it had been routed.
func (e *exchange) isLate() bool {
	isSpent := e.decision.Reason == limits.MonthUSD || e.decision.Reason == limits.HeldUSD
	return isSpent && paths.IsText(e.path) && e.team.Replaces(e.request.Model)
}

func (e *exchange) replacedHeader(set map[string]string) {
	if e.insteadOf != "" {
		set[insteadOfHeader] = e.insteadOf
	}
}
