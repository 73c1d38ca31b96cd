package fallback

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gke-inference/gateway/relay/internal/config"
	"gke-inference/gateway/relay/internal/openai"
)

const objectiveHeader = "X-Gateway-Inference-Objective"

// Gate decides which requests a fallback takes, and reports it in the metrics of an engine. The pool's
// picker compares the queue and the cache usage of all replicas: a closed fallback appears as the worst
// replica, an open one as the best. The gate is open if every engine's queue has reached the configured
// length, or if no engine responds. A failing backend closes it for a while, unless there is no engine.
type Gate struct {
	Settings func() *config.Fallback
	Engines  *Engines
	// Budget is nil if no backend answers: requests only wait for an engine.
	Budget  *Budget
	Running func() int64

	failures  atomic.Int64
	coolUntil atomic.Int64
}

const (
	// manyFailures consecutive failures close the gate for a while, because waiting at an engine is
	// better.
	manyFailures = 3
	coolTime     = 5 * time.Second
)

// Answered records the status of an admitted request.
func (g *Gate) Answered(status int) {
	switch {
	case status == http.StatusTooManyRequests || status >= http.StatusInternalServerError:
		if g.failures.Add(1) >= manyFailures {
			g.coolUntil.Store(time.Now().Add(coolTime).UnixNano())
		}
	case status == http.StatusOK:
		g.failures.Store(0)
	}
}

func (g *Gate) isCooling() bool { return time.Now().UnixNano() < g.coolUntil.Load() }

// IsReady reports whether the pool can use the fallback: engines are known, and requests can wait or some
// budget is left.
func (g *Gate) IsReady() bool {
	settings := g.Settings()
	return settings != nil && g.Engines.Queues() != nil && (settings.Wait != nil || g.Pays())
}

// Pays reports whether a backend may answer: the amount is known, and some budget is left.
func (g *Gate) Pays() bool {
	settings := g.Settings()
	return settings != nil && g.Budget != nil && g.Budget.IsOpen(settings)
}

// IsOpen reports whether the fallback wants requests.
func (g *Gate) IsOpen() bool {
	settings, queues := g.Settings(), g.Engines.Queues()
	if settings == nil || queues == nil {
		return false
	}
	if queues.Engines == 0 && settings.Wait != nil {
		return true
	}
	if !g.Pays() {
		return false
	}
	return queues.Engines == 0 || queues.Shortest >= settings.AfterQueue && !g.isCooling()
}

// Admit admits or refuses a request. Requests that a picker sent just before the gate closed are also
// admitted, because the engines' queues change faster than they are read.
func (g *Gate) Admit(headers http.Header, guess openai.Usage) (func(openai.Usage), *openai.Error) {
	settings := g.Settings()
	if settings == nil {
		return nil, full(http.StatusServiceUnavailable)
	}
	if slices.Contains(settings.Refused, headers.Get(objectiveHeader)) {
		return nil, full(http.StatusTooManyRequests)
	}
	spent, has := g.Budget.Reserve(settings, guess)
	if !has {
		return nil, full(http.StatusServiceUnavailable)
	}
	return spent, nil
}

func full(status int) *openai.Error {
	return openai.Overloaded(status, "model_overloaded", "The model has no capacity for more requests.", "1")
}

// ServeMetrics serves the metrics that a picker reads, in the format of an engine's `/metrics`.
func (g *Gate) ServeMetrics(w http.ResponseWriter, _ *http.Request) {
	settings := g.Settings()
	if settings == nil {
		http.Error(w, "no fallback", http.StatusServiceUnavailable)
		return
	}
	queue, cache, info := g.shown()
	labels := fmt.Sprintf("{model_name=%q}", settings.Model)
	var page strings.Builder
	gauge := func(name, labels string, value int) {
		if name != "" {
			fmt.Fprintf(&page, "# TYPE %s gauge\n%s%s %d\n", name, name, labels, value)
		}
	}
	gauge(settings.Metrics.Queue, labels, queue)
	gauge(settings.Metrics.Running, labels, int(g.Running()))
	gauge(settings.Metrics.KVCache, labels, cache)
	if info != "" {
		gauge(settings.Metrics.CacheInfo, "{"+info+"}", 1)
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Write([]byte(page.String())) // a picker that disconnects is not an error
}

// shown returns the queue and the cache usage to show to the picker. Pickers scale queues by the
// longest one. A closed fallback therefore shows the longest queue of the engines, and never a longer
// one if they differ: the relative scores of the engines stay the same as without the fallback.
func (g *Gate) shown() (queue, cache int, info string) {
	queues := g.Engines.Queues()
	if queues == nil {
		return 0, 1, ""
	}
	if g.IsOpen() {
		return 0, 0, queues.CacheInfo
	}
	if queues.Shortest == queues.Longest {
		return queues.Longest + 1, 1, queues.CacheInfo
	}
	return queues.Longest, 1, queues.CacheInfo
}

// Register adds the gate's own metrics, which alerts use.
func (g *Gate) Register(registry *prometheus.Registry) {
	asNumber := func(is bool) float64 {
		if is {
			return 1
		}
		return 0
	}
	for _, one := range []struct {
		name, help string
		value      func() float64
	}{
		{"relay_fallback_open", "1 while the fallback takes requests.", func() float64 { return asNumber(g.IsOpen()) }},
		{"relay_fallback_ready", "1 while the pool counts on the fallback.",
			func() float64 { return asNumber(g.IsReady()) }},
		{"relay_fallback_engines", "Engines of the pool that answer.", func() float64 {
			if queues := g.Engines.Queues(); queues != nil {
				return float64(queues.Engines)
			}
			return -1
		}},
	} {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: one.name, Help: one.help}, one.value))
	}
	if g.Budget == nil {
		return
	}
	for _, one := range []struct {
		name, help string
		value      func() float64
	}{
		{"relay_fallback_spent_dollars", "What all replicas spent this month; -1 where it is not known.",
			func() float64 {
				if spent, has := g.Budget.SpentUSD(); has {
					return spent
				}
				return -1
			}},
		{"relay_fallback_budget_dollars", "What all replicas may spend in a month.", func() float64 {
			if settings := g.Settings(); settings != nil {
				return settings.MonthlyUSD
			}
			return 0
		}},
	} {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: one.name, Help: one.help}, one.value))
	}
}
