package extproc

import (
	"bytes"
	"time"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"gke-inference/gateway/callout/internal/config"
	"gke-inference/gateway/callout/internal/guard"
	"gke-inference/gateway/callout/internal/openai"
	"gke-inference/gateway/internal/calls"
	"gke-inference/gateway/internal/holding"
	"gke-inference/gateway/internal/texts"
)

const (
	// maxCheckedBytes limits a response that is held until it is checked.
	maxCheckedBytes = 16 << 20
	// guardCopies of a body exist while guards check it: its texts, the question in JSON twice while its
	// buffer grows, and what a guard returns, in JSON and read.
	guardCopies = 5
)

// guarded is the state of the guards for one request, with the part of its response that they hold.
type guarded struct {
	// isMasked is whether a guard changed the client's prompt.
	isMasked bool
	// headers of a response that is checked as a whole wait for its verdict.
	headers *extproc.HeaderMutation
	// isWaiting is whether the response is incomplete.
	isWaiting bool
	whole     *holding.Body
	answer    *guard.Checks
	stream    *guard.Stream
}

func (e *exchange) checks(phase string) *guard.Checks {
	return &guard.Checks{
		Guards: e.config.GuardsOf(e.team, e.request.Model, phase), Phase: phase,
		Model: e.request.Model, Team: e.caller.Team, Client: e.Guards, Observe: e.observeGuard,
	}
}

// observeGuard counts a check. A response that passed without a check is not stored in the cache.
func (e *exchange) observeGuard(name, phase, outcome string, took time.Duration) {
	e.Metrics.Guard(name, phase, outcome, took)
	if outcome == guard.FailedOpen {
		e.reuse.isUnchecked.Store(true)
	}
}

// guardPrompt checks the body of an admitted request. The guards can change the body.
func (e *exchange) guardPrompt() *openai.Error {
	answers, checks := e.checks(config.OutputPhase), e.checks(config.InputPhase)
	if answers.IsNone() && checks.IsNone() {
		return nil
	}
	if e.held != nil && !e.held.Copy(guardCopies) {
		return holding.TooMany(holding.ManyBytes)
	}
	found, refused := e.texts(!answers.IsNone())
	if refused != nil {
		return openai.NotChecked(refused.Field, refused.Reason)
	}
	if !answers.IsNone() && e.request.Stream && !openai.CanCheckStream(e.path) {
		return openai.NotChecked("stream", "must be false on this path: a guardrail of this model reads responses.")
	}
	if checks.IsNone() {
		return nil
	}
	body, fault := checks.Prompt(e.stream.Context(), e.body, found)
	if fault != nil {
		return fault
	}
	e.guarded.isMasked = !bytes.Equal(body, e.body)
	e.body = body
	return nil
}

// texts returns the texts of the body that guards check.
func (e *exchange) texts(isAnswerRead bool) ([]texts.Text, *texts.Refused) {
	if e.form != nil {
		return texts.Form(e.path, e.form)
	}
	return texts.Request(e.path, e.body, isAnswerRead)
}

// guardAnswer starts the checks of a response, and reports whether its headers wait for the verdict.
func (e *exchange) guardAnswer(isStream bool, headers *extproc.HeaderMutation) bool {
	checks := e.checks(config.OutputPhase)
	if checks.IsNone() {
		return false
	}
	headers.RemoveHeaders = append(headers.RemoveHeaders, contentLength, "etag", "accept-ranges")
	if isStream {
		e.guarded.stream = guard.NewStream(e.stream.Context(), e.path, checks)
		return false
	}
	e.guarded.answer, e.guarded.headers, e.guarded.isWaiting = checks, headers, true
	e.guarded.whole = e.Hold.Begin(e.client())
	return true
}

// passEncoded passes an encoded response although no encoding was requested, if every guard fails open:
// no guard can read it.
func (e *exchange) passEncoded() *openai.Error {
	if checks := e.checks(config.OutputPhase); !checks.IsNone() && checks.Unchecked() != nil {
		return openai.Unavailable("A guardrail of this model could not read the response.")
	}
	return nil
}

// checked takes the next piece of a response and returns what to send to the client now. If the
// response is checked as a whole, its pieces and headers wait for its end.
func (e *exchange) checked(piece []byte, isEnd bool) ([]byte, *openai.Error) {
	g := &e.guarded
	switch {
	case g.stream != nil:
		out := g.stream.Pass(piece)
		if isEnd {
			out = append(out, g.stream.Rest()...)
		}
		return out, nil
	case !g.isWaiting:
		return piece, nil
	}
	switch {
	case g.whole == nil || g.whole.Size()+len(piece) > maxCheckedBytes || !g.whole.Add(piece):
		return e.passUnchecked(piece)
	case !isEnd:
		return nil, nil
	case !g.whole.Copy(guardCopies):
		return e.passUnchecked(nil)
	}
	body, fault := g.answer.Answer(e.stream.Context(), e.path, g.whole.Whole())
	if fault != nil {
		return nil, fault
	}
	return body, e.sendHeldHeaders()
}

// passUnchecked passes a response that is too long to be held, or for which there is no room, if every guard
// fails open.
func (e *exchange) passUnchecked(piece []byte) ([]byte, *openai.Error) {
	if e.guarded.answer.Unchecked() != nil {
		return nil, openai.Unavailable("The response is too long for a guardrail of this model, or too many are checked at once.")
	}
	if e.guarded.whole != nil {
		piece = append(e.guarded.whole.Whole(), piece...)
	}
	return piece, e.sendHeldHeaders()
}

func (e *exchange) sendHeldHeaders() *openai.Error {
	e.guarded.isWaiting = false
	if err := e.stream.Send(calls.ResponseHeaders(e.guarded.headers)); err != nil {
		return openai.Unavailable("The response could not be sent.")
	}
	return nil
}
