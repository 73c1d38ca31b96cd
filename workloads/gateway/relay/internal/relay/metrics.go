package relay

import (
	"github.com/prometheus/client_golang/prometheus"

	"gke-inference/gateway/internal/holding"
)

// Metrics are the metrics of the relay. No label contains a client's name.
type Metrics struct {
	Registry *prometheus.Registry
	Requests *prometheus.CounterVec
	Refusals *prometheus.CounterVec
	Attempts *prometheus.CounterVec
	Tokens   *prometheus.CounterVec
	First    *prometheus.HistogramVec
	Stalled  *prometheus.CounterVec
	InFlight prometheus.Gauge
	Full     prometheus.Counter
}

// NewMetrics returns the relay's metrics in a separate registry. hold has the bodies.
func NewMetrics(hold *holding.Hold) *Metrics {
	m := &Metrics{
		Registry: prometheus.NewRegistry(),
		Requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_requests_total", Help: "Requests by backend and the status that the client received.",
		}, []string{"backend", "code"}),
		Refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_fallback_refusals_total", Help: "Requests that a fallback refused, like a full pool.",
		}, []string{"backend"}),
		Attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_attempts_total", Help: "Calls of targets by result: ok, or the reason of the failure.",
		}, []string{"backend", "target", "result"}),
		Tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_tokens_total", Help: "Tokens by backend and direction, input or output.",
		}, []string{"backend", "direction"}),
		First: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "relay_answer_start_seconds", Help: "Time until a target's response starts.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300},
		}, []string{"backend"}),
		Stalled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "relay_stalled_streams_total", Help: "Streams that had begun and were ended because the target sent nothing.",
		}, []string{"backend"}),
		InFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "relay_requests_in_flight", Help: "Active requests.",
		}),
		Full: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "relay_bodies_refused_total", Help: "Requests refused because too many bodies were held.",
		}),
	}
	m.Registry.MustRegister(m.Requests, m.Refusals, m.Attempts, m.Tokens, m.First, m.Stalled, m.InFlight, m.Full)
	m.Registry.MustRegister(hold.Metrics("relay_bodies", "relay_held_bytes")...)
	return m
}
