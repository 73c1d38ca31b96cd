package holding

import (
	"flag"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Settings are the limits of a program as its flags set them.
type Settings struct {
	Limits
	// MaxBodyBytes is the maximum size of one body.
	MaxBodyBytes int
	// BodyTime is the maximum time from the headers of a request to the end of its body.
	BodyTime time.Duration
}

// Flags adds the flags. A client is an address or a team, as the program knows its clients.
func (s *Settings) Flags(flags *flag.FlagSet) {
	flags.IntVar(&s.MaxBodyBytes, "max-body-bytes", 8<<20, "maximum size of a request body")
	flags.IntVar(&s.Bodies, "max-bodies", 1024, "maximum number of bodies that are held")
	flags.IntVar(&s.BodiesOfOne, "max-bodies-per-client", 256, "maximum number of bodies from one client that are held")
	flags.IntVar(&s.Bytes, "max-held-bytes", 160<<20, "maximum memory of bodies, beyond the first 64 KiB of each")
	flags.IntVar(&s.BytesOfOne, "max-held-bytes-per-client", 64<<20,
		"maximum memory of bodies from one client, beyond the first 64 KiB of each")
	flags.DurationVar(&s.BodyTime, "body-time", time.Minute, "maximum time from the headers of a request to the end of its body")
}

// Check returns an error with the flag, its rule and its value if a limit is wrong.
func (s *Settings) Check() error {
	for _, one := range []struct {
		name       string
		value, low int
	}{
		{"max-body-bytes", s.MaxBodyBytes, 1},
		{"max-bodies", s.Bodies, 1},
		{"max-bodies-per-client", s.BodiesOfOne, 1},
		{"max-held-bytes", s.Bytes, s.MaxBodyBytes},
		{"max-held-bytes-per-client", s.BytesOfOne, s.MaxBodyBytes},
	} {
		if one.value < one.low {
			return fmt.Errorf("--%s: must be at least %d, got %d", one.name, one.low, one.value)
		}
	}
	if s.BodyTime <= 0 {
		return fmt.Errorf("--body-time: must be more than 0, got %s", s.BodyTime)
	}
	return nil
}

// Metrics returns the number of bodies and their memory, as metrics with these names.
func (h *Hold) Metrics(bodies, bytes string) []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: bodies, Help: "Bodies that the program holds.",
		}, func() float64 { held, _ := h.Held(); return float64(held) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: bytes, Help: "Memory of bodies beyond the first 64 KiB of each.",
		}, func() float64 { _, held := h.Held(); return float64(held) }),
	}
}
