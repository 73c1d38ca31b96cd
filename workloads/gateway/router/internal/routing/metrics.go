package routing

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"gke-inference/gateway/router/internal/holding"
)

// Metrics are what the program exports.
type Metrics struct {
	Registry *prometheus.Registry
	Refused  *prometheus.CounterVec
}

// NewMetrics returns the metrics of a program that holds bodies.
func NewMetrics(hold *holding.Hold) *Metrics {
	m := &Metrics{
		Registry: prometheus.NewRegistry(),
		Refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "body_router_refused_total", Help: "Requests that the router refused, by the error's code.",
		}, []string{"code"}),
	}
	m.Registry.MustRegister(
		m.Refused,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "body_router_bodies", Help: "Bodies that have begun and not ended.",
		}, func() float64 { bodies, _ := hold.Held(); return float64(bodies) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "body_router_held_bytes", Help: "Memory of bodies beyond the first 64 KiB of each.",
		}, func() float64 { _, bytes := hold.Held(); return float64(bytes) }),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}
