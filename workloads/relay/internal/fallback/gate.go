package fallback

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gke-inference/relay/internal/config"
	"gke-inference/relay/internal/openai"
)

const objectiveHeader = "X-Gateway-Inference-Objective"

// Gate decides what a fallback takes, and says so in the words of an engine. The pool's picker weighs
// queue and cache of all replicas: a fallback that is closed is the worst of them, and one that is open
// the best. It is open while every engine's queue is as long as the settings ask, or no engine answers. A
// backend that fails closes it for a while, unless there is no engine.
type Gate struct {
	Settings func() *config.Fallback
	Engines  *Engines
	Budget   *Budget
	Running  func() int64

	failures  atomic.Int64
	coolUntil atomic.Int64
}

const (
	// manyFailures in a row close the gate for a while: a request that waits at an engine is better off.
	manyFailures = 3
	coolTime     = 5 * time.Second
)

// Answered notes the status of a request that passed.
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

// IsReady returns whether the pool may count on it: engines and count are known, and money is left.
func (g *Gate) IsReady() bool {
	settings := g.Settings()
	return settings != nil && g.Engines.Queues() != nil && g.Budget.IsOpen(settings)
}

// IsOpen returns whether requests are wanted here.
func (g *Gate) IsOpen() bool {
	settings, queues := g.Settings(), g.Engines.Queues()
	if settings == nil || queues == nil || !g.Budget.IsOpen(settings) {
		return false
	}
	return queues.Engines == 0 || queues.Shortest >= settings.AfterQueue && !g.isCooling()
}

// Admit lets a request pass. One that a picker sent a moment too late passes also while the gate is
// closed: the engines' queues change faster than anybody looks.
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
	return openai.Overloaded(status, "model_overloaded", "The model has no room for more requests.", "1")
}

// ServeMetrics answers as an engine's `/metrics` does, with what a picker reads.
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
	w.Write([]byte(page.String())) // a picker that is gone reads nothing
}

// shown returns the queue and the cache use that a picker is to read. Pickers compare queues with the
// longest, so a closed fallback has the longest of the engines' own, and no longer one where they differ:
// the engines' scores among themselves stay what they are without it.
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

// Register adds the gate's own metrics, which alerts read.
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
