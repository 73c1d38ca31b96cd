// Command router is the first external processor of an inference gateway: it names the model of a
// request in a header, by which the gateway chooses the route. On a gateway without a client gate it is
// also the last one: a GCPTrafficExtension calls it for the headers of responses, from which it removes
// those that no client gets.
//
// Google's load balancer calls it for each request, as a GCPRoutingExtension of the Gateway with full-duplex
// bodies. A body is held until it is complete, and passes unchanged. What no model can serve is refused
// with 400, and a body over the limit with 413, before the program reads it.
//
//	router [--grpc-port 9004] [--grpc-health-port 9005] [--metrics-port 9090]
//
// The load balancer speaks HTTP/2 over TLS and does not verify the certificate, so the program creates
// a certificate at each start. The gRPC health protocol is served in plain text on a separate port.
//
// The client can control neither the number of bodies that the program holds nor their memory: both are
// limited, for each client address and in all. The first 64 KiB of a body count only as a body, so that
// large bodies never keep out a small one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	service "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"gke-inference/gateway/internal/calls"
	"gke-inference/gateway/router/internal/holding"
	"gke-inference/gateway/router/internal/routing"
)

const (
	usageError = 2
	readTime   = 10 * time.Second
	// windowSize limits what the transport holds of one body before the program reads it.
	windowSize = 64 << 10
)

type options struct {
	address       string
	grpcPort      int
	healthPort    int
	metricsPort   int
	maxBodyBytes  int
	limits        holding.Limits
	bodyTime      time.Duration
	forwardedHops int
	hidden        calls.Names
	drain         time.Duration
}

func main() {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	wanted, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(wanted)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(usageError)
	}
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("router", flag.ContinueOnError)
	flags.StringVar(&o.address, "address", "", "address to listen on; empty means all")
	flags.IntVar(&o.grpcPort, "grpc-port", 9004, "port of the external processor (HTTP/2 over TLS)")
	flags.IntVar(&o.healthPort, "grpc-health-port", 9005, "port of the gRPC health protocol (plain text)")
	flags.IntVar(&o.metricsPort, "metrics-port", 9090, "port of /metrics")
	flags.IntVar(&o.maxBodyBytes, "max-body-bytes", 8<<20, "maximum size of a request body")
	flags.IntVar(&o.limits.Bodies, "max-bodies", 1024, "maximum number of incomplete bodies")
	flags.IntVar(&o.limits.BodiesOfOne, "max-bodies-per-client", 256, "maximum number of incomplete bodies from one address")
	flags.IntVar(&o.limits.Bytes, "max-held-bytes", 160<<20, "maximum memory of bodies, beyond the first 64 KiB of each")
	flags.IntVar(&o.limits.BytesOfOne, "max-held-bytes-per-client", 64<<20, "maximum memory of bodies from one address, beyond the first 64 KiB of each")
	flags.DurationVar(&o.bodyTime, "body-time", time.Minute, "maximum time from the headers of a request to the end of its body")
	flags.IntVar(&o.forwardedHops, "forwarded-hops", 2, "position of the client in X-Forwarded-For, counted from the end")
	flags.Var(&o.hidden, "remove-response-headers", "headers that no client gets, separated by commas")
	flags.DurationVar(&o.drain, "drain", 5*time.Second, "time between reporting not serving and refusing new calls")
	help := flags.Usage
	flags.Usage = func() {}
	flags.SetOutput(io.Discard)
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(os.Stdout)
		flags.Usage = help
		flags.PrintDefaults()
	}
	if err != nil {
		return o, err
	}
	return o, check(o, flags.Args())
}

func check(o options, rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("arguments: must be flags only, got %q", rest[0])
	}
	for _, one := range []struct {
		name       string
		value, low int
	}{
		{"max-body-bytes", o.maxBodyBytes, 1},
		{"max-bodies", o.limits.Bodies, 1},
		{"max-bodies-per-client", o.limits.BodiesOfOne, 1},
		{"max-held-bytes", o.limits.Bytes, o.maxBodyBytes},
		{"max-held-bytes-per-client", o.limits.BytesOfOne, o.maxBodyBytes},
		{"forwarded-hops", o.forwardedHops, 1},
	} {
		if one.value < one.low {
			return fmt.Errorf("--%s: must be at least %d, got %d", one.name, one.low, one.value)
		}
	}
	switch {
	case o.bodyTime <= 0:
		return fmt.Errorf("--body-time: must be more than 0, got %s", o.bodyTime)
	case o.drain < 0:
		return fmt.Errorf("--drain: must not be negative, got %s", o.drain)
	}
	return nil
}

func run(o options) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	hold := holding.New(o.limits)
	processor := &routing.Server{
		Hold: hold, Metrics: routing.NewMetrics(hold),
		MaxBodyBytes: o.maxBodyBytes, BodyTime: o.bodyTime, ForwardedHops: o.forwardedHops,
		Hidden: o.hidden,
	}
	var listeners [3]net.Listener
	for i, port := range []int{o.grpcPort, o.healthPort, o.metricsPort} {
		var err error
		if listeners[i], err = net.Listen("tcp", net.JoinHostPort(o.address, fmt.Sprint(port))); err != nil {
			return err
		}
	}
	certificate, err := calls.SelfSigned("router")
	if err != nil {
		return err
	}
	main := grpc.NewServer(
		grpc.Creds(credentials.NewServerTLSFromCert(certificate)),
		grpc.InitialWindowSize(windowSize),
		grpc.InitialConnWindowSize(16*windowSize),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	)
	service.RegisterExternalProcessorServer(main, processor)
	state := health.NewServer()
	checks := grpc.NewServer()
	healthpb.RegisterHealthServer(main, state)
	healthpb.RegisterHealthServer(checks, state)
	pages := http.NewServeMux()
	pages.Handle("/metrics", promhttp.HandlerFor(processor.Metrics.Registry, promhttp.HandlerOpts{}))
	web := &http.Server{Handler: pages, ReadHeaderTimeout: readTime}

	failed := make(chan error, len(listeners))
	go func() { failed <- main.Serve(listeners[0]) }()
	go func() { failed <- checks.Serve(listeners[1]) }()
	go func() { failed <- web.Serve(listeners[2]) }()
	slog.Info("serving", "grpc", listeners[0].Addr().String(), "health", listeners[1].Addr().String(),
		"metrics", listeners[2].Addr().String())

	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	state.Shutdown()
	slog.Info("draining", "seconds", o.drain.Seconds())
	time.Sleep(o.drain)
	main.GracefulStop()
	checks.Stop()
	return web.Close()
}
