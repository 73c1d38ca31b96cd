package routing

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"gke-inference/gateway/internal/holding"
)

// Metrics are what the program exports.
type Metrics struct {
	Registry *prometheus.Registry
	Refused  *prometheus.CounterVec
	// Unanswered counts the requests about which the client gate did not reply.
	Unanswered prometheus.Counter
}

// NewMetrics returns the metrics of a program that holds bodies.
func NewMetrics(hold *holding.Hold) *Metrics {
	m := &Metrics{
		Registry: prometheus.NewRegistry(),
		Refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "body_router_refused_total", Help: "Requests that the router refused, by the error's code.",
		}, []string{"code"}),
		Unanswered: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "body_router_unanswered_total",
			Help: "Requests that kept their model because the client gate did not reply about the team's budget.",
		}),
	}
	m.Registry.MustRegister(hold.Metrics("body_router_bodies", "body_router_held_bytes")...)
	m.Registry.MustRegister(
		m.Refused,
		m.Unanswered,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}
