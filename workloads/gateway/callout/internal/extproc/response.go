package extproc

import (
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/google/uuid"

	"gke-inference/gateway/callout/internal/config"
	"gke-inference/gateway/callout/internal/limits"
	"gke-inference/gateway/callout/internal/openai"
	"gke-inference/gateway/callout/internal/usage"
	"gke-inference/gateway/internal/calls"
	"gke-inference/gateway/internal/paths"
)

const (
	eventStream = "text/event-stream"
	// clientGone is the status of requests that ended before their response started.
	clientGone   = 499
	maxListBytes = 1 << 20
	maxRequestID = 128
	otherModel   = "other"

	contentLength = "content-length"
)

func (e *exchange) onResponseHeaders(message *extproc.HttpHeaders) error {
	headers := calls.HeadersOf(message.GetHeaders())
	e.status, _ = strconv.Atoi(calls.First(headers, ":status"))
	e.callStatus(headers)
	more := e.limitHeaders()
	e.cacheHeaders(more)
	e.replacedHeader(more)
	mutation := &extproc.HeaderMutation{SetHeaders: calls.Options(more), RemoveHeaders: e.Hidden.In(headers)}
	switch {
	case e.holdsError() && !message.GetEndOfStream():
		e.failed = &heldError{headers: mutation}
		return nil
	case e.status != http.StatusOK:
	case e.kind == prompt:
		kind, _, err := mime.ParseMediaType(calls.First(headers, "content-type"))
		isStream := err == nil && kind == eventStream
		// a video has no text that a guard could read
		isVideo := e.path == paths.Videos && strings.HasPrefix(kind, "video/")
		e.answer = openai.NewResponse(isStream, e.request.Usage, e.request.Size.Choices)
		if isVideo {
			e.answer = openai.NewFile()
		}
		e.collect(isStream)
		if isStream && e.answer.Changes() {
			mutation.RemoveHeaders = append(mutation.RemoveHeaders, contentLength)
		}
		if encoding := calls.First(headers, "content-encoding"); encoding != "" && encoding != "identity" {
			if fault := e.passEncoded(); fault != nil {
				return fault
			}
		} else if !message.GetEndOfStream() && !isVideo && e.guardAnswer(isStream, mutation) {
			return nil // the headers wait for the verdict
		}
	case e.kind == modelList && !message.GetEndOfStream() && !e.team.HasAllModels():
		e.keepList = true
		mutation.RemoveHeaders = append(mutation.RemoveHeaders, contentLength, "etag", "accept-ranges")
	}
	if err := e.stream.Send(calls.ResponseHeaders(mutation)); err != nil {
		return err
	}
	if message.GetEndOfStream() {
		e.finish(true)
	} else {
		e.watch(headers)
	}
	return nil
}

func (e *exchange) onResponseBody(message *extproc.HttpBody) error {
	began := time.Now()
	out, isEnd := message.GetBody(), message.GetEndOfStream()
	switch {
	case e.failed != nil:
		var fault *openai.Error
		if out, fault = e.passError(out, isEnd); fault != nil {
			return fault
		}
		if e.failed != nil {
			return nil
		}
	case e.keepList:
		out = e.onList(out, isEnd)
	case e.answer != nil:
		e.heard = began
		out = e.answer.Pass(out)
		if isEnd {
			out = append(out[:len(out):len(out)], e.answer.Rest()...)
		}
		var fault *openai.Error
		if out, fault = e.checked(out, isEnd); fault != nil {
			return fault
		}
		if e.guarded.isWaiting {
			return nil
		}
	}
	if err := e.sendResponse(out, isEnd); err != nil {
		return err
	}
	e.guarded.whole.End()
	e.Metrics.Since(usage.PhaseChunk, began)
	if isEnd {
		e.finish(true)
	} else {
		e.awaitPiece()
	}
	return nil
}

func (e *exchange) onResponseTrailers(message *extproc.HttpTrailers) error {
	e.callStatus(calls.HeadersOf(message.GetTrailers()))
	var rest []byte
	switch {
	case e.failed != nil:
		var fault *openai.Error
		if rest, fault = e.passError(nil, true); fault != nil {
			return fault
		}
	case e.keepList:
		rest = e.onList(nil, true)
	case e.answer != nil:
		var fault *openai.Error
		if rest, fault = e.checked(e.answer.Rest(), true); fault != nil {
			return fault
		}
	}
	if err := e.sendResponse(rest, false); err != nil {
		return err
	}
	if err := e.stream.Send(calls.ResponseTrailers()); err != nil {
		return err
	}
	e.finish(true)
	return nil
}

func (e *exchange) sendResponse(body []byte, isEnd bool) error {
	if e.reuse.answer != nil {
		e.reuse.answer.Write(body)
	}
	return calls.EachPart(body, isEnd, func(part *extproc.BodyResponse) error {
		return e.stream.Send(&extproc.ProcessingResponse{
			Response: &extproc.ProcessingResponse_ResponseBody{ResponseBody: part},
		})
	})
}

// onList collects the list of models and returns, at its end, the team's part of it. A list that cannot
// be read becomes empty, because it could name models of other teams.
func (e *exchange) onList(piece []byte, isEnd bool) []byte {
	if len(e.list)+len(piece) <= maxListBytes {
		e.list = append(e.list, piece...)
	}
	if !isEnd {
		return nil
	}
	return permittedModels(e.list, func(model string) bool { return e.config.Permits(e.team, model) })
}

func permittedModels(list []byte, permits func(string) bool) []byte {
	var document map[string]json.RawMessage
	var data []json.RawMessage
	if json.Unmarshal(list, &document) != nil || json.Unmarshal(document["data"], &data) != nil {
		document, data = map[string]json.RawMessage{"object": json.RawMessage(`"list"`)}, nil
	}
	kept := []json.RawMessage{}
	for _, item := range data {
		var model struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(item, &model) == nil && permits(model.ID) {
			kept = append(kept, item)
		}
	}
	var err error
	if document["data"], err = json.Marshal(kept); err != nil {
		return nil
	}
	made, err := json.Marshal(document)
	if err != nil {
		return nil
	}
	return made
}

// refuse responds to the client; the gateway makes no more calls for the request.
func (e *exchange) refuse(fault *openai.Error) error {
	e.refusedBy, e.status = fault.Code, fault.Status
	return e.stream.Send(calls.Refusal("callout", fault.On(e.path), e.limitHeaders()))
}

// finish settles and records the request, once. isComplete is whether the whole response has passed.
func (e *exchange) finish(isComplete bool) {
	if e.finished || e.headers == nil {
		return
	}
	e.finished = true
	e.place.Leave()
	if e.isStreaming { // the gateway may take longer to send the rest to the client
		e.isStreaming, e.deadline = false, nil
	}
	if e.refusedBy != "" {
		e.Metrics.Refusals.WithLabelValues(e.caller.Team, e.refusedBy).Inc()
	}
	used, isEstimated := e.used(isComplete)
	cost := limits.Cost{
		Tokens:  used.Prompt + used.Completion,
		NanoUSD: e.config.NanoUSD(e.request.Model, used.Prompt, used.Completion),
	}
	if isComplete {
		e.keep(used)
	}
	spent := e.Limiter.Settle(e.stream.Context(), e.reservation, cost)
	if e.caller.Team == "" {
		return
	}
	if e.reservation != nil {
		e.reportBudget(spent)
	}
	outcome := e.outcome(isComplete)
	e.count(outcome, used, cost)
	e.Records.Write(usage.Record{
		Time: time.Now().UTC(), RequestID: e.requestID(), Team: e.caller.Team, KeyID: e.caller.KeyID,
		Subject: e.caller.Subject, Model: e.request.Model, InsteadOf: e.insteadOf, Region: e.config.Region, Status: e.status, Stream: e.request.Stream,
		PromptTokens: used.Prompt, CachedTokens: used.Cached, CompletionTokens: used.Completion,
		Estimated: isEstimated, USD: float64(cost.NanoUSD) / config.NanoPerUSD,
		Cache: string(e.reuse.outcome), SavedUSD: e.savedUSD(),
		DurationMS: time.Since(e.began).Milliseconds(),
	})
}

// used returns the usage that the engine reported, or an estimate. If a client disconnects, its prompt
// counts, because the engine may have read it, and of the answer either what the stream reported and what the
// engine has generated since then, or what it has probably generated of an answer that nobody reads.
func (e *exchange) used(isComplete bool) (used openai.Usage, isEstimated bool) {
	size := e.request.Size
	if e.path == paths.CountTokens {
		return openai.Usage{}, false
	}
	if e.answer == nil {
		if e.kind != prompt || !e.decided || isComplete || e.status != 0 {
			return openai.Usage{}, false
		}
		return openai.Usage{Prompt: e.Rates.Prompt(e.request.Model, size), Completion: e.elapsed()}, true
	}
	used, isCounted := e.answer.Usage()
	isWhole := isCounted
	if !isCounted {
		used, isCounted = e.answer.SoFar()
	}
	if e.isStalled { // its engine generated nothing since the last piece
		return e.estimated(used, isCounted)
	}
	if isComplete && isCounted {
		e.Rates.Observe(e.request.Model, size, used.Prompt, used.Completion, time.Since(e.sent))
	}
	if isComplete || isWhole {
		return e.estimated(used, isCounted)
	}
	switch {
	case !e.request.Stream:
		used.Completion = e.elapsed()
	case e.answer.HasBegun():
		// a client that reads slowly, or a tool call that is sent as a whole, holds back what is generated
		since, isMore := e.Rates.Since(e.request.Model, size, time.Since(e.heard))
		used.Completion = min(used.Completion+since, max(used.Completion, size.MostAnswer))
		isCounted = isCounted && !isMore
	}
	return e.estimated(used, isCounted)
}

// estimated completes a usage that the engine did not count.
func (e *exchange) estimated(used openai.Usage, isCounted bool) (openai.Usage, bool) {
	if isCounted {
		return used, false
	}
	if used.Prompt == 0 {
		used.Prompt = e.Rates.Prompt(e.request.Model, e.request.Size)
	}
	used.Completion = min(used.Completion, e.request.Size.MostAnswer)
	return used, true
}

// elapsed returns the tokens of a whole answer that ended early, by the time that it held its engine.
func (e *exchange) elapsed() int64 {
	if e.request.Stream {
		return 0
	}
	return e.Rates.Elapsed(e.request.Model, e.request.Size, time.Since(e.sent))
}

func (e *exchange) outcome(isComplete bool) string {
	switch {
	case e.refusedBy != "":
		return "refused"
	case e.isStalled:
		return "failed"
	case !isComplete:
		if e.status == 0 {
			e.status = clientGone
		}
		return "aborted"
	case e.status >= http.StatusBadRequest:
		return "failed"
	default:
		return "ok"
	}
}

// labels returns the team and the model of an exchange in metrics.
func (e *exchange) labels() (team, model string) {
	team, model = e.caller.Team, e.request.Model
	if model != "" && !e.config.Names(model) {
		model = otherModel // limits metric cardinality: the client chose this name
	}
	return team, model
}

func (e *exchange) count(outcome string, used openai.Usage, cost limits.Cost) {
	team, model := e.labels()
	e.Metrics.Requests.WithLabelValues(team, model, outcome).Inc()
	if e.isStalled {
		e.Metrics.Stalled.WithLabelValues(team, model).Inc()
	}
	if e.insteadOf != "" {
		e.Metrics.Replaced.WithLabelValues(team, e.insteadOf, model, outcome).Inc()
	}
	if used == (openai.Usage{}) {
		return
	}
	e.Metrics.Tokens.WithLabelValues(team, model, "prompt").Add(float64(used.Prompt))
	e.Metrics.Tokens.WithLabelValues(team, model, "cached").Add(float64(used.Cached))
	e.Metrics.Tokens.WithLabelValues(team, model, "completion").Add(float64(used.Completion))
	e.Metrics.USD.WithLabelValues(team, model).Add(float64(cost.NanoUSD) / config.NanoPerUSD)
}

func (e *exchange) reportBudget(spent limits.Cost) {
	budget := limits.BudgetOf(e.team, "")
	report := func(kind string, used, limit int64) {
		if limit > 0 {
			e.Metrics.BudgetSpent.WithLabelValues(e.caller.Team, kind).Set(float64(used) / float64(limit))
		}
	}
	report("tokens", spent.Tokens, budget.TokensPerMonth)
	report("usd", spent.NanoUSD, budget.NanoUSDPerMonth)
}

// requestID returns the gateway's request ID, or a new one.
func (e *exchange) requestID() string {
	id := calls.First(e.headers, "x-request-id")
	if id == "" || len(id) > maxRequestID {
		return uuid.NewString()
	}
	return id
}
