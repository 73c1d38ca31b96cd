// Command router is the first external processor of an inference gateway: it names the model of a
// request in a header, by which the gateway chooses the route.
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
	"gke-inference/gateway/internal/holding"
	"gke-inference/gateway/router/internal/routing"
)

const (
	usageError = 2
	readTime   = 10 * time.Second
)

type options struct {
	address       string
	grpcPort      int
	healthPort    int
	metricsPort   int
	bodies        holding.Settings
	forwardedHops int
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
	o.bodies.Flags(flags)
	flags.IntVar(&o.forwardedHops, "forwarded-hops", 2, "position of the client in X-Forwarded-For, counted from the end")
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
	if err := o.bodies.Check(); err != nil {
		return err
	}
	switch {
	case o.forwardedHops < 1:
		return fmt.Errorf("--forwarded-hops: must be at least 1, got %d", o.forwardedHops)
	case o.drain < 0:
		return fmt.Errorf("--drain: must not be negative, got %s", o.drain)
	}
	return nil
}

func run(o options) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	hold := holding.New(o.bodies.Limits)
	processor := &routing.Server{
		Hold: hold, Metrics: routing.NewMetrics(hold), Limits: o.bodies, ForwardedHops: o.forwardedHops,
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
		grpc.InitialWindowSize(calls.WindowBytes),
		grpc.InitialConnWindowSize(16*calls.WindowBytes),
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
