package extproc

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	kind "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"gke-inference/gateway/callout/internal/cache"
	"gke-inference/gateway/callout/internal/config"
	"gke-inference/gateway/callout/internal/openai"
	"gke-inference/gateway/callout/internal/usage"
	"gke-inference/gateway/internal/calls"
	"gke-inference/gateway/internal/paths"
)

// errAnswered ends the calls of a request after the callout sent the response.
var errAnswered = errors.New("answered")

const (
	// cacheStatus is the response header of RFC 9211; cacheName identifies this cache in it.
	cacheStatus = "cache-status"
	cacheName   = "gke-inference"
	// questionCopies of a body exist while its question is read: its fields, its messages, and both in a new
	// order.
	questionCopies = 5
	// maxReplayBytes leaves room for headers in the 128 KB that Google's load balancer accepts.
	maxReplayBytes = 2 * calls.MaxReplyBytes
)

// reuse is the result of the cache for one request.
type reuse struct {
	outcome cache.Outcome
	entry   cache.Entry
	// place is where to store the response after its checks.
	place  *cache.Place
	answer *openai.Collector
	// isUnchecked is whether a guard that fails open let the request or its response pass without a
	// check.
	isUnchecked atomic.Bool
}

// lookUp queries the cache, if the team and the model use it, and responds from it on a hit. Clients
// control it with Cache-Control (RFC 9111): no-cache requests a new response; no-store requests in
// addition that it is not stored.
func (e *exchange) lookUp() error {
	if e.kind != prompt || e.path != paths.Chats || !e.config.Caches(e.team, e.request.Model) {
		return nil
	}
	began := time.Now()
	var question openai.Question
	fits := e.held == nil || e.held.Copy(questionCopies)
	if fits {
		question, fits = openai.ParseQuestion(e.body)
	}
	switch wishes := directives(e.headers["cache-control"]); {
	case wishes["no-store"]:
		e.reuse.outcome = cache.Bypass
	case !fits:
		e.reuse.outcome = cache.Unfit
	default:
		e.reuse.entry, e.reuse.place, e.reuse.outcome = e.Cache.Find(
			e.stream.Context(), e.caller.Team, question, wishes["no-cache"])
	}
	e.Metrics.Cache.WithLabelValues(e.caller.Team, e.request.Model, string(e.reuse.outcome)).Inc()
	e.Metrics.Since(usage.PhaseCache, began)
	if e.reuse.outcome != cache.Hit {
		return nil
	}
	return e.replay(time.Now())
}

// replay responds from the cache. It counts as a request of the team, without tokens.
func (e *exchange) replay(now time.Time) error {
	entry := e.reuse.entry
	body, contentType := openai.Replay(e.request, entry.Answer, entry.Usage, now)
	if len(body) > maxReplayBytes {
		e.reuse.outcome = cache.Unfit
		return nil
	}
	set := e.limitHeaders()
	e.replacedHeader(set)
	set["content-type"] = contentType
	set["age"] = strconv.FormatInt(max(0, int64(now.Sub(entry.Written).Seconds())), 10)
	set[cacheStatus] = fmt.Sprintf(`%s; hit; detail="similarity=%.3f"`, cacheName, entry.Similarity)
	answer := &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ImmediateResponse{
		ImmediateResponse: &extproc.ImmediateResponse{
			Status:  &kind.HttpStatus{Code: kind.StatusCode_OK},
			Headers: &extproc.HeaderMutation{SetHeaders: calls.Options(set)},
			Body:    body,
			Details: "gke_inference_callout_cached",
		},
	}}
	if err := e.stream.Send(answer); err != nil {
		return err
	}
	e.status = http.StatusOK
	e.Metrics.SavedUSD.WithLabelValues(e.caller.Team, e.request.Model).Add(e.savedUSD())
	e.finish(true)
	return errAnswered
}

// savedUSD returns what the response would have cost if the engine had generated it.
func (e *exchange) savedUSD() float64 {
	if e.reuse.outcome != cache.Hit {
		return 0
	}
	used := e.reuse.entry.Usage
	return float64(e.config.NanoUSD(e.request.Model, used.Prompt, used.Completion)) / config.NanoPerUSD
}

// collect starts to collect a response that can be stored.
func (e *exchange) collect(isStream bool) {
	if e.reuse.place != nil {
		e.reuse.answer = openai.NewCollector(isStream)
	}
}

// keep stores the response after its checks.
func (e *exchange) keep(used openai.Usage) {
	if e.reuse.answer == nil || e.reuse.isUnchecked.Load() {
		return
	}
	if answer, isFit := e.reuse.answer.Text(); isFit {
		e.Cache.Keep(e.reuse.place, cache.Entry{Answer: answer, Usage: used, Written: time.Now()})
	}
}

// cacheHeaders reports to the client why there was no cached response, if the cache was queried.
func (e *exchange) cacheHeaders(set map[string]string) {
	switch e.reuse.outcome {
	case cache.Miss:
		set[cacheStatus] = cacheName + "; fwd=miss"
	case cache.Bypass:
		set[cacheStatus] = cacheName + "; fwd=request"
	case cache.Unfit, cache.Failed:
		set[cacheStatus] = fmt.Sprintf("%s; fwd=bypass; detail=%s", cacheName, e.reuse.outcome)
	}
}

func directives(fields []string) map[string]bool {
	found := map[string]bool{}
	for _, field := range fields {
		for _, one := range strings.Split(field, ",") {
			name, _, _ := strings.Cut(one, "=")
			found[strings.ToLower(strings.TrimSpace(name))] = true
		}
	}
	return found
}
