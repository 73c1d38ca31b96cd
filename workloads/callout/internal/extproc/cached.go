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

	"gke-inference/callout/internal/cache"
	"gke-inference/callout/internal/config"
	"gke-inference/callout/internal/openai"
	"gke-inference/callout/internal/usage"
)

// errAnswered ends the calls of a request that was answered here.
var errAnswered = errors.New("answered")

const (
	chatPath = "/v1/chat/completions"
	// cacheStatus is the field of RFC 9211, and cacheName the name of this cache in it.
	cacheStatus = "cache-status"
	cacheName   = "gke-inference"
	// maxReplayBytes leaves room for headers in the 128 KB that Google's load balancer takes.
	maxReplayBytes = 2 * maxReplyBytes
)

// reuse is what the cache says about one request.
type reuse struct {
	outcome cache.Outcome
	entry   cache.Entry
	// place is where the answer goes when it has passed.
	place  *cache.Place
	answer *openai.Collector
	// isUnchecked is whether a guard that fails open let the request or its answer pass unseen.
	isUnchecked atomic.Bool
}

// lookUp asks the cache, where the team and the model have one, and answers the client from it. Clients
// say by Cache-Control what they want (RFC 9111): no-cache, an answer that is made now; no-store, also
// that it is not kept.
func (e *exchange) lookUp() error {
	if e.kind != prompt || e.path != chatPath || !e.config.Caches(e.team, e.request.Model) {
		return nil
	}
	began := time.Now()
	question, fits := openai.ParseQuestion(e.body)
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

// replay answers the client with what is known. It costs the team a request, and no tokens.
func (e *exchange) replay(now time.Time) error {
	entry := e.reuse.entry
	body, contentType := openai.Replay(e.request, entry.Answer, entry.Usage, now)
	if len(body) > maxReplayBytes {
		e.reuse.outcome = cache.Unfit
		return nil
	}
	set := e.limitHeaders()
	set["content-type"] = contentType
	set["age"] = strconv.FormatInt(max(0, int64(now.Sub(entry.Written).Seconds())), 10)
	set[cacheStatus] = fmt.Sprintf(`%s; hit; detail="similarity=%.3f"`, cacheName, entry.Similarity)
	answer := &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ImmediateResponse{
		ImmediateResponse: &extproc.ImmediateResponse{
			Status:  &kind.HttpStatus{Code: kind.StatusCode_OK},
			Headers: &extproc.HeaderMutation{SetHeaders: options(set)},
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

// savedUSD returns what the answer would have cost, had the engine made it.
func (e *exchange) savedUSD() float64 {
	if e.reuse.outcome != cache.Hit {
		return 0
	}
	used := e.reuse.entry.Usage
	return float64(e.config.NanoUSD(e.request.Model, used.Prompt, used.Completion)) / config.NanoPerUSD
}

// collect begins to gather an answer that has a place.
func (e *exchange) collect(isStream bool) {
	if e.reuse.place != nil {
		e.reuse.answer = openai.NewCollector(isStream)
	}
}

// keep stores the answer that has passed.
func (e *exchange) keep(used openai.Usage) {
	if e.reuse.answer == nil || e.reuse.isUnchecked.Load() {
		return
	}
	if answer, isFit := e.reuse.answer.Text(); isFit {
		e.Cache.Keep(e.reuse.place, cache.Entry{Answer: answer, Usage: used, Written: time.Now()})
	}
}

// cacheHeaders tells the client why no known answer was given, where the cache was asked.
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
