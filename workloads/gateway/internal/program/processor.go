package program

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	service "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"gke-inference/gateway/internal/calls"
	"gke-inference/gateway/internal/holding"
)

// Processor has the options of an external processor of the gateway.
type Processor struct {
	Address                           string
	GRPCPort, HealthPort, MetricsPort int
	Bodies                            holding.Settings
	ForwardedHops                     int
	Drain                             time.Duration
}

// Flags adds the flags. The ports have their defaults already; health is the flag of the health port.
func (p *Processor) Flags(flags *flag.FlagSet, health string) {
	flags.StringVar(&p.Address, "address", "", "address to listen on; empty means all")
	flags.IntVar(&p.GRPCPort, "grpc-port", p.GRPCPort, "port of the external processor (HTTP/2 over TLS)")
	flags.IntVar(&p.HealthPort, health, p.HealthPort, "port of the gRPC health protocol (plain text)")
	flags.IntVar(&p.MetricsPort, "metrics-port", p.MetricsPort, "port of /metrics")
	p.Bodies.Flags(flags)
	flags.IntVar(&p.ForwardedHops, "forwarded-hops", 2, "position of the client in X-Forwarded-For, counted from the end")
	flags.DurationVar(&p.Drain, "drain", 5*time.Second, "time between reporting not serving and refusing new calls")
}

// Check returns an error with the flag, its rule and its value if one is wrong.
func (p *Processor) Check() error {
	switch {
	case p.ForwardedHops < 1:
		return fmt.Errorf("--forwarded-hops: must be at least 1, got %d", p.ForwardedHops)
	case p.Drain < 0:
		return fmt.Errorf("--drain: must not be negative, got %s", p.Drain)
	}
	return p.Bodies.Check()
}

// Listen listens on the ports of the calls, of the health protocol and of the metrics.
func (p *Processor) Listen() ([]net.Listener, error) {
	return Listen(p.Address, p.GRPCPort, p.HealthPort, p.MetricsPort)
}

// Serve answers the calls of a gateway until the context ends.
//
// The load balancer speaks HTTP/2 over TLS and does not verify the certificate, so a certificate of this name
// is created. The gRPC health protocol is also served in plain text on a separate port, whose state announce
// may set until the context ends.
func (p *Processor) Serve(
	ctx context.Context, name string, ports []net.Listener, processor service.ExternalProcessorServer,
	metrics prometheus.Gatherer, announce func(context.Context, *health.Server),
) error {
	certificate, err := calls.SelfSigned(name)
	if err != nil {
		return err
	}
	main := grpc.NewServer(
		grpc.Creds(credentials.NewServerTLSFromCert(certificate)),
		grpc.InitialWindowSize(calls.WindowBytes),
		grpc.InitialConnWindowSize(16*calls.WindowBytes),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	)
	service.RegisterExternalProcessorServer(main, processor)
	if asked, is := processor.(auth.AuthorizationServer); is { // by the body router, about the model of a request
		auth.RegisterAuthorizationServer(main, asked)
	}
	state := health.NewServer()
	announce(ctx, state)
	checks := grpc.NewServer()
	healthpb.RegisterHealthServer(main, state)
	healthpb.RegisterHealthServer(checks, state)
	pages := http.NewServeMux()
	pages.Handle("/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	web := Web(pages)

	failed := make(chan error, len(ports))
	go func() { failed <- main.Serve(ports[0]) }()
	go func() { failed <- checks.Serve(ports[1]) }()
	go func() { failed <- web.Serve(ports[2]) }()
	slog.Info("serving", "grpc", ports[0].Addr().String(), "health", ports[1].Addr().String(),
		"metrics", ports[2].Addr().String())
	if err := Until(ctx, failed); err != nil {
		return err
	}
	state.Shutdown()
	Drain(p.Drain)
	main.GracefulStop()
	checks.Stop()
	return web.Close()
}
