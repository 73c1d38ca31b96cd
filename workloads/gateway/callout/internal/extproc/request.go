package extproc

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"gke-inference/gateway/callout/internal/config"
	"gke-inference/gateway/callout/internal/identity"
	"gke-inference/gateway/callout/internal/limits"
	"gke-inference/gateway/callout/internal/openai"
	"gke-inference/gateway/callout/internal/turns"
	"gke-inference/gateway/callout/internal/usage"
	"gke-inference/gateway/internal/apierror"
	"gke-inference/gateway/internal/calls"
	"gke-inference/gateway/internal/forms"
	"gke-inference/gateway/internal/holding"
	"gke-inference/gateway/internal/inference"
	"gke-inference/gateway/internal/paths"
)

// exchange is one request and its response.
type exchange struct {
	*Server
	config *config.Config
	stream extproc.ExternalProcessor_ProcessServer
	began  time.Time

	headers map[string][]string
	caller  identity.Caller
	team    *config.Team
	// sender is the team of the credential: its priority counts, whichever team the request acts for.
	sender *config.Team
	kind   requestKind
	path   string
	// held is the body until it is complete; then it is also body, and held counts its memory.
	held *holding.Body
	// boundary is that of a form; empty for JSON. form is the body, once it is complete.
	boundary string
	form     *forms.Form
	// call reads the model of a gRPC call; nil for other requests.
	call     *inference.Reader
	body     []byte
	deadline *time.Timer
	decided  bool
	request  openai.Request
	// insteadOf is the model that the client named, if another one answers because the team's budget is spent.
	insteadOf string
	// sent is when the request was forwarded.
	sent time.Time
	// heard is when the last piece of the response arrived.
	heard time.Time

	decision    limits.Decision
	reservation *limits.Reservation
	// place is that of a request that was passed on, in the queue of its team.
	place *turns.Place
	reuse reuse

	status int
	answer *openai.Response
	// isStream is whether the response is a stream, isStreaming whether the deadline is that of its next piece, and
	// isStalled whether that has passed.
	isStream, isStreaming, isStalled bool

	list     []byte
	keepList bool
	guarded  guarded
	failed   *heldError

	refusedBy string
	finished  bool
}

type requestKind int

const (
	prompt requestKind = iota
	modelList
	oneModel
	stored
	health
	predictive
)

const modelsPath = "/v1/models"

// healthPath answers whether the gateway works, also for a serving stack whose team shares the gateway's
// hostname with others.
var healthPath = regexp.MustCompile(`^(/[a-z][-a-z0-9]*)?/healthz$`)

// teamModels is the model list of a serving stack whose team shares the gateway's hostname with others.
var teamModels = regexp.MustCompile(`^/[a-z][-a-z0-9]*/v1/models$`)

// kindOf refuses all other paths: on some of them, engines load adapters or pause.
func kindOf(method, path string, hasBatches bool) (requestKind, *openai.Error) {
	if hasBatches && storedPaths.MatchString(path) {
		return storedKind(method)
	}
	if _, infers, isOne := paths.Predictive(path); isOne {
		return predictiveKind(method, infers)
	}
	if paths.IsCall(path) {
		return callKind(method, path)
	}
	isList := path == modelsPath || teamModels.MatchString(path)
	isOne := strings.HasPrefix(path, modelsPath+"/")
	switch {
	case strings.HasPrefix(path, paths.Responses+"/"):
		return prompt, openai.NotStored()
	case paths.IsPrompt(path) && method == http.MethodPost:
		return prompt, nil
	case isList && method == http.MethodGet:
		return modelList, nil
	case isOne && method == http.MethodGet:
		return oneModel, nil
	case paths.IsPrompt(path) || isList || isOne:
		return prompt, openai.MethodNotAllowed(method)
	default:
		return prompt, openai.UnknownURL(method, path)
	}
}

func (e *exchange) onRequestHeaders(message *extproc.HttpHeaders) error {
	began := time.Now()
	defer e.Metrics.Since(usage.PhaseHeaders, began)
	e.headers = calls.HeadersOf(message.GetHeaders())
	e.path, _, _ = strings.Cut(calls.First(e.headers, ":path"), "?")
	// Probes of Cloud DNS and uptime checks have no credential. They come through the gate, so that a
	// region whose gate is away fails them.
	if calls.First(e.headers, ":method") == http.MethodGet && healthPath.MatchString(e.path) {
		e.kind = health
		return e.passOn()
	}
	if fault := e.identify(began); fault != nil {
		return fault
	}
	var fault *openai.Error
	if e.kind, fault = kindOf(calls.First(e.headers, ":method"), e.path, e.config.Batches); fault != nil {
		return fault
	}
	if e.kind == oneModel {
		name, err := url.PathUnescape(strings.TrimPrefix(e.path, modelsPath+"/"))
		if err != nil || !e.config.Permits(e.team, name) {
			return openai.ModelNotFound(name)
		}
	}
	if e.kind == prompt {
		if fault := e.checkBodyHeaders(); fault != nil {
			return fault
		}
	}
	if e.kind == stored {
		if fault := e.admitStored(began); fault != nil {
			return fault
		}
		return e.passOn()
	}
	if e.kind == predictive {
		return e.begin(message.GetEndOfStream(), began)
	}
	if message.GetEndOfStream() {
		return e.decide(false)
	}
	if e.held = e.Hold.Begin(e.client()); e.held == nil {
		return holding.TooMany(holding.ManyBodies)
	}
	e.deadline = time.NewTimer(e.Limits.BodyTime)
	return nil
}

// client returns whom the memory of a body counts for: the team, or the address of a caller without a
// credential, so that none of them takes the room of the others.
func (e *exchange) client() string {
	if e.caller.KeyID != "" {
		return "team " + e.caller.Team
	}
	return calls.ClientAddress(e.headers, e.ForwardedHops)
}

func (e *exchange) identify(now time.Time) *openai.Error {
	caller, verdict := e.Verifier.Verify(e.config, e.headers, now)
	switch verdict {
	case identity.Valid:
		e.caller = caller
	case identity.Unknown:
		return openai.Unavailable("Keys and tokens cannot be checked at the moment.")
	case identity.Invalid:
		address := calls.ClientAddress(e.headers, e.ForwardedHops)
		if e.Limiter.Guess(e.stream.Context(), address, now) {
			return openai.TooManyGuesses(time.Minute)
		}
		return apierror.Unauthorized()
	case identity.Missing, identity.Unpublished:
		return apierror.Unauthorized()
	}
	acting, isPermitted := identity.ActsFor(e.config, caller, e.headers)
	if !isPermitted {
		return openai.NotActing()
	}
	e.sender, e.caller.Team = e.config.Teams[caller.Team], acting
	if e.team = e.config.Teams[acting]; e.team == nil {
		e.caller = identity.Caller{}
		return openai.UnknownTeam()
	}
	return nil
}

func (e *exchange) checkBodyHeaders() *openai.Error {
	var fault *openai.Error
	encoding := calls.First(e.headers, "content-encoding")
	if e.boundary, fault = openai.ContentType(e.path, e.headers["content-type"], encoding); fault != nil {
		return fault
	}
	size, err := strconv.ParseUint(calls.First(e.headers, contentLength), 10, 64)
	if err == nil && size > uint64(e.Limits.MaxBodyBytes) {
		return apierror.TooLarge(e.Limits.MaxBodyBytes)
	}
	return nil
}

func (e *exchange) onRequestBody(message *extproc.HttpBody) error {
	if e.call != nil {
		return e.onCall(message)
	}
	if e.kind == stored || e.kind == health || e.kind == predictive {
		return e.passPiece(message)
	}
	if e.decided || e.held == nil {
		return nil
	}
	if e.held.Size()+len(message.GetBody()) > e.Limits.MaxBodyBytes {
		return apierror.TooLarge(e.Limits.MaxBodyBytes)
	}
	if !e.held.Add(message.GetBody()) {
		return holding.TooMany(holding.ManyBytes)
	}
	if message.GetEndOfStream() {
		return e.decide(true)
	}
	return nil
}

func (e *exchange) onRequestTrailers() error {
	if e.call != nil { // gRPC has no trailers of requests
		if fault := e.call.End(); fault != nil {
			return fault
		}
	}
	if !e.decided {
		if err := e.decide(false); err != nil {
			return err
		}
	}
	return e.stream.Send(calls.RequestTrailers())
}

// decide admits a request whose body is complete and forwards it. isBodyEnd is whether the last piece
// of the body ended the request; otherwise there was no body, or trailers follow.
func (e *exchange) decide(isBodyEnd bool) error {
	began := time.Now()
	if e.held != nil {
		e.deadline.Stop()
		e.body = e.held.Whole()
	}
	if e.kind == prompt {
		if fault := e.admit(began); fault != nil {
			return fault
		}
		if fault := e.guardPrompt(); fault != nil {
			return fault
		}
	}
	parts, isSalted := [][]byte{e.body}, e.kind == prompt && e.form == nil && e.config.Salts(e.request.Model, e.path)
	if isSalted {
		var fault *openai.Error
		if parts, fault = openai.Salted(e.body, e.salt); fault != nil {
			return fault
		}
	}
	e.decided = true
	e.Metrics.Since(usage.PhaseDecision, began)
	if err := e.lookUp(); err != nil {
		return err
	}
	objective := e.config.ObjectiveOf(e.sender, e.request.Model)
	mutation := upstreamMutation(e.headers, e.config, e.caller.Team, objective)
	if e.kind == prompt {
		e.takeTurn(mutation)
	}
	if e.guarded.isMasked || isSalted || e.insteadOf != "" {
		mutation.RemoveHeaders = append(mutation.RemoveHeaders, contentLength)
	}
	if err := e.stream.Send(calls.RequestHeaders(mutation)); err != nil {
		return err
	}
	e.sent = time.Now()
	e.body = nil
	defer e.held.End()
	for at, part := range parts {
		isLast := at == len(parts)-1
		if err := calls.EachPart(part, isLast && isBodyEnd, e.sendRequest); err != nil {
			return err
		}
	}
	return nil
}

func (e *exchange) sendRequest(part *extproc.BodyResponse) error {
	return e.stream.Send(&extproc.ProcessingResponse{
		Response: &extproc.ProcessingResponse_RequestBody{RequestBody: part},
	})
}

// salt returns the salt of the request's team.
func (e *exchange) salt(given string) string { return e.Verifier.CacheSalt(e.caller.Team, given) }

func (e *exchange) admit(now time.Time) *openai.Error {
	body := e.body
	if e.boundary != "" {
		var fault *openai.Error
		if e.form, fault = openai.ReadForm(e.body, e.boundary); fault != nil {
			return fault
		}
		if e.held != nil && !e.held.Copy(1) { // of its texts
			return holding.TooMany(holding.ManyBytes)
		}
		body = e.form.JSON()
	}
	request, fault := openai.ParseRequest(e.path, body, e.config.Size)
	if fault != nil {
		return fault
	}
	for _, routed := range e.headers[modelHeader] {
		if routed == request.Model {
			continue
		}
		if request, fault = e.replaced(request, routed); fault != nil {
			return fault
		}
	}
	if !e.config.Permits(e.team, request.Model) {
		return openai.ModelNotFound(request.Model)
	}
	for _, adapter := range request.Adapters {
		if !e.config.Permits(e.team, adapter) {
			return openai.ModelNotFound(adapter)
		}
	}
	e.request = request
	budget := limits.BudgetOf(e.team, request.Model)
	cost := limits.Cost{
		Tokens:  request.Size.Most,
		NanoUSD: e.config.NanoUSD(request.Model, request.Size.MostPrompt, request.Size.MostAnswer),
	}
	if budget.TokensPerMinute > 0 && cost.Tokens > budget.TokensPerMinute {
		return openai.TokensTooLarge(request.Size, budget.TokensPerMinute)
	}
	e.decision, e.reservation = e.Limiter.Admit(e.stream.Context(), e.caller.Team, budget, cost, now)
	if e.decision.Allowed {
		return nil
	}
	e.reservation = nil
	if e.isLate() {
		return openai.NotReplaced(e.team.WhenSpent.Model, replacedPause)
	}
	switch e.decision.Reason {
	case limits.MonthTokens:
		return openai.QuotaExceeded("tokens", limits.NextMonth(now))
	case limits.MonthUSD:
		return openai.QuotaExceeded("dollars", limits.NextMonth(now))
	case limits.HeldTokens, limits.HeldUSD:
		return openai.BudgetHeld(e.decision.Retry)
	case limits.Share:
		return openai.Unavailable("The counters of budgets are unavailable, and this replica has used its share of the rest.")
	case limits.Tokens:
		return openai.RateLimited("tokens", budget.TokensPerMinute, e.decision.Retry)
	default:
		return openai.RateLimited("requests", budget.RequestsPerMinute, e.decision.Retry)
	}
}

// limitHeaders returns the team's remaining limits, with the header names of the API: Anthropic's has the time of the
// reset, OpenAI's the time until then (platform.claude.com/docs/en/api/rate-limits).
func (e *exchange) limitHeaders() map[string]string {
	found := map[string]string{}
	if e.team == nil || e.kind != prompt && e.kind != predictive || e.request.Model == "" {
		return found
	}
	retry := e.decision.Retry
	if e.decision.Allowed {
		retry = time.Minute
	}
	add := func(name string, limit, used int64) {
		if limit == 0 {
			return
		}
		most, left := strconv.FormatInt(limit, 10), strconv.FormatInt(max(0, limit-used), 10)
		if paths.IsMessages(e.path) {
			prefix := "anthropic-ratelimit-" + name
			found[prefix+"-limit"], found[prefix+"-remaining"] = most, left
			found[prefix+"-reset"] = time.Now().Add(retry).UTC().Format(time.RFC3339)
			return
		}
		found["x-ratelimit-limit-"+name], found["x-ratelimit-remaining-"+name] = most, left
		found["x-ratelimit-reset-"+name] = retry.Round(time.Millisecond).String()
	}
	add("requests", e.team.RequestsPerMinute, e.decision.UsedRequests)
	if e.kind == prompt {
		add("tokens", e.team.TokensPerMinute, e.decision.UsedTokens)
	}
	return found
}
