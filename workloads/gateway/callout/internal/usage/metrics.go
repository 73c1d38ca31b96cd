package usage

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"gke-inference/gateway/internal/holding"
)

// Metrics are the Prometheus metrics of the program.
type Metrics struct {
	Registry    *prometheus.Registry
	Requests    *prometheus.CounterVec
	Tokens      *prometheus.CounterVec
	USD         *prometheus.CounterVec
	Refusals    *prometheus.CounterVec
	Replaced    *prometheus.CounterVec
	Stalled     *prometheus.CounterVec
	Cache       *prometheus.CounterVec
	SavedUSD    *prometheus.CounterVec
	Guards      *prometheus.CounterVec
	GuardTime   *prometheus.HistogramVec
	BudgetSpent *prometheus.GaugeVec
	StoreErrors prometheus.Counter
	Processing  *prometheus.HistogramVec
}

// Phases of the histogram of processing times.
const (
	PhaseHeaders  = "request_headers"
	PhaseDecision = "decision"
	PhaseCache    = "cache"
	PhaseChunk    = "response_chunk"
)

// NewMetrics registers the metrics. keyAge returns the age of the document of keys, and whether there
// is one; hold has the bodies.
func NewMetrics(keyAge func() (time.Duration, bool), hold *holding.Hold) *Metrics {
	registry := prometheus.NewRegistry()
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		made := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		registry.MustRegister(made)
		return made
	}
	m := &Metrics{
		Registry: registry,
		Requests: counter("callout_requests_total",
			"Finished requests by outcome: ok, refused, failed or aborted.", "team", "model", "outcome"),
		Tokens: counter("callout_tokens_total",
			"Tokens by kind: prompt, cached (of the prompt) or completion.", "team", "model", "kind"),
		USD:      counter("callout_usd_total", "Dollars at the configured prices.", "team", "model"),
		Refusals: counter("callout_refusals_total", "Refused requests by error code.", "team", "reason"),
		Stalled: counter("callout_stalled_streams_total",
			"Streams that were ended because the engine sent nothing.", "team", "model"),
		Replaced: counter("callout_replaced_total",
			"Requests of teams with a spent budget that another model answered, by the named model and the other one.",
			"team", "asked", "model", "outcome"),
		Cache: counter("callout_cache_total",
			"Lookups in the response cache by outcome: hit, miss, bypass, unfit or failed.", "team", "model", "outcome"),
		SavedUSD: counter("callout_cache_saved_usd_total",
			"Dollars that cached responses cost when they were generated.", "team", "model"),
		Guards: counter("callout_guard_total",
			"Guard checks by outcome: allow, block, replace, failed_open or failed_closed.", "guard", "phase", "outcome"),
		GuardTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "callout_guard_seconds",
			Help:    "Duration of guard checks, by guard and phase.",
			Buckets: []float64{2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5, 10},
		}, []string{"guard", "phase"}),
		BudgetSpent: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "callout_budget_spent_ratio",
			Help: "Used share of the monthly budget, by kind: tokens or usd.",
		}, []string{"team", "kind"}),
		StoreErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "callout_store_errors_total",
			Help: "Calls of the store that failed or timed out; the replica then enforced its share alone.",
		}),
		Processing: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "callout_processing_seconds",
			Help:    "Time spent in the program itself, by phase: request_headers, decision, cache or response_chunk.",
			Buckets: []float64{1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.5},
		}, []string{"phase"}),
	}
	registry.MustRegister(hold.Metrics("callout_bodies", "callout_held_bytes")...)
	registry.MustRegister(m.BudgetSpent, m.GuardTime, m.StoreErrors, m.Processing,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "callout_key_document_age_seconds",
			Help: "Time since the document of keys was read; -1 if it was never read.",
		}, func() float64 {
			age, has := keyAge()
			if !has {
				return -1
			}
			return age.Seconds()
		}),
	)
	return m
}

// Guard counts a check of a guard.
func (m *Metrics) Guard(guard, phase, outcome string, took time.Duration) {
	m.Guards.WithLabelValues(guard, phase, outcome).Inc()
	m.GuardTime.WithLabelValues(guard, phase).Observe(took.Seconds())
}

// Since observes a phase from its start until now.
func (m *Metrics) Since(phase string, began time.Time) {
	m.Processing.WithLabelValues(phase).Observe(time.Since(began).Seconds())
}
