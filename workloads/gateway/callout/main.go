// Command callout is the external processor of an inference gateway: it identifies the caller.
//
// Google's load balancer calls it for each request, as a GCPTrafficExtension of the Gateway with all
// six events and full-duplex bodies, after the model's route is chosen and before the endpoint picker.
// It verifies an API key, a token or a client certificate, checks that the caller's team may use the
// model, counts the team's requests, tokens and dollars across all replicas, and records the usage of
// each request.
//
//	callout --config FILE [--grpc-port 9010] [--health-port 9011] [--metrics-port 9012]
//
// The load balancer speaks HTTP/2 over TLS and does not verify the certificate, so the program creates
// a certificate at each start. The gRPC health protocol is served in plain text on a separate port. It
// reports not serving until the keys have been read, for at most ten seconds. Its service `liveness`
// always reports serving, because a restart does not help a program that waits for keys.
//
// Standard output has one JSON line for each finished request of a known team; logs go to standard
// error. Neither contains prompts, bodies or credentials.
//
// How it treats requests and responses:
//
//   - The body of a request passes unchanged or not at all, with two exceptions: a guard of its model or
//     team can mask texts in it, and it gets the salt of its team for the prefix cache of an engine that
//     knows one. The number of bodies that the program holds and their memory are limited, for each team
//     and in all, as in the router.
//   - Headers that pickers and engines trust are removed, and set from the verified identity.
//   - The credential and `accept-encoding` are removed.
//   - A response passes unchanged, except that the event with only the usage is removed from a stream
//     if the client did not request it. Engines always report usage (vLLM:
//     --enable-force-include-usage), so that it is exact; without it, events are counted and the
//     record is marked `estimated`. Guards can mask texts of a response, or end it.
//   - The list of models contains only the team's models.
//   - A question with the same meaning as an earlier one of the team is answered from the cache, if
//     the team uses it.
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
	"runtime/debug"
	"syscall"
	"time"

	service "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"gke-inference/gateway/callout/internal/cache"
	"gke-inference/gateway/callout/internal/config"
	"gke-inference/gateway/callout/internal/extproc"
	"gke-inference/gateway/callout/internal/guard"
	"gke-inference/gateway/callout/internal/identity"
	"gke-inference/gateway/callout/internal/limits"
	"gke-inference/gateway/callout/internal/usage"
	"gke-inference/gateway/internal/calls"
	"gke-inference/gateway/internal/holding"
	"gke-inference/gateway/internal/watch"
)

const (
	usageError = 2
	keysWait   = 10 * time.Second
	liveness   = "liveness"
	readTime   = 10 * time.Second
	// gcPercent lets the small heap grow more between collections than Go's default of 100, because a
	// collection delays requests. GOGC replaces it, and GOMEMLIMIT limits all memory
	// of the Go runtime.
	gcPercent = 400
)

type options struct {
	config        string
	address       string
	grpcPort      int
	healthPort    int
	metricsPort   int
	bodies        holding.Settings
	forwardedHops int
	hidden        calls.Names
	drain         time.Duration
}

func main() {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
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
	flags := flag.NewFlagSet("callout", flag.ContinueOnError)
	flags.StringVar(&o.config, "config", "", "file of teams, limits and prices (required)")
	flags.StringVar(&o.address, "address", "", "address to listen on; empty means all")
	flags.IntVar(&o.grpcPort, "grpc-port", 9010, "port of the external processor (HTTP/2 over TLS)")
	flags.IntVar(&o.healthPort, "health-port", 9011, "port of the gRPC health protocol (plain text)")
	flags.IntVar(&o.metricsPort, "metrics-port", 9012, "port of /metrics")
	o.bodies.Flags(flags)
	flags.IntVar(&o.forwardedHops, "forwarded-hops", 2, "position of the client in X-Forwarded-For, counted from the end")
	flags.Var(&o.hidden, "remove-response-headers", "headers that no client gets, separated by commas")
	flags.DurationVar(&o.drain, "drain", 5*time.Second, "time between reporting not serving and refusing new calls")
	flags.DurationVar(&limits.StoreTimeout, "store-timeout", limits.StoreTimeout, "maximum time that a request waits for the store")
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
	if err := o.bodies.Check(); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("arguments: must be flags only, got %q", flags.Arg(0))
	case o.config == "":
		return o, errors.New("--config: is required")
	case o.forwardedHops < 1:
		return o, fmt.Errorf("--forwarded-hops: must be at least 1, got %d", o.forwardedHops)
	case o.drain < 0:
		return o, fmt.Errorf("--drain: must not be negative, got %s", o.drain)
	case limits.StoreTimeout <= 0:
		return o, fmt.Errorf("--store-timeout: must be more than 0, got %s", limits.StoreTimeout)
	}
	return o, nil
}

func run(o options) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	file, err := watch.Open(o.config, config.Parse)
	if err != nil {
		return err
	}
	secret := identity.NewSecret(file.Current().Keys.Secret)
	hold := holding.New(o.bodies.Limits)
	metrics := usage.NewMetrics(func() (time.Duration, bool) { return secret.Age(time.Now()) }, hold)
	limiter := limits.New(metrics.StoreErrors.Inc)
	if err := limiter.Use(file.Current()); err != nil {
		return err
	}
	answers := cache.New()
	if err := answers.Use(file.Current().Cache); err != nil {
		return err
	}
	ports, err := listen(o)
	if err != nil {
		return err
	}
	// active streams need keys and issuers until they end, so these outlive the signal
	working, done := context.WithCancel(context.Background())
	defer done()
	verifier := identity.NewVerifier(secret)
	go secret.Follow(working)
	verifier.Use(working, file.Current())
	go file.Follow(working, func(c *config.Config) {
		verifier.Use(working, c)
		if err := limiter.Use(c); err != nil {
			slog.Error("store settings not applied", "error", err.Error())
		}
		if err := answers.Use(c.Cache); err != nil {
			slog.Error("cache settings not applied", "error", err.Error())
		}
	})
	processor := &extproc.Server{
		Config: file.Current, Verifier: verifier, Limiter: limiter, Cache: answers, Metrics: metrics,
		Records: usage.NewWriter(os.Stdout), Guards: guard.NewClient(),
		Hold: hold, Limits: o.bodies, ForwardedHops: o.forwardedHops, Hidden: o.hidden,
	}
	return serve(ctx, o, ports, processor, func() bool {
		return file.Current().Keys.Secret == "" || secret.Keys() != nil
	})
}

type listeners struct{ grpc, health, metrics net.Listener }

func listen(o options) (l listeners, err error) {
	for _, one := range []struct {
		port int
		into *net.Listener
	}{{o.grpcPort, &l.grpc}, {o.healthPort, &l.health}, {o.metricsPort, &l.metrics}} {
		if *one.into, err = net.Listen("tcp", net.JoinHostPort(o.address, fmt.Sprint(one.port))); err != nil {
			return l, err
		}
	}
	return l, nil
}

func serve(ctx context.Context, o options, l listeners, processor *extproc.Server, isReady func() bool) error {
	certificate, err := calls.SelfSigned("callout")
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
	state.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	state.SetServingStatus(liveness, healthpb.HealthCheckResponse_SERVING)
	checks := grpc.NewServer()
	healthpb.RegisterHealthServer(main, state)
	healthpb.RegisterHealthServer(checks, state)
	pages := http.NewServeMux()
	pages.Handle("/metrics", promhttp.HandlerFor(processor.Metrics.Registry, promhttp.HandlerOpts{}))
	web := &http.Server{Handler: pages, ReadHeaderTimeout: readTime}

	failed := make(chan error, 3)
	go func() { failed <- main.Serve(l.grpc) }()
	go func() { failed <- checks.Serve(l.health) }()
	go func() { failed <- web.Serve(l.metrics) }()
	go announce(ctx, state, isReady)
	slog.Info("serving", "grpc", l.grpc.Addr().String(), "health", l.health.Addr().String(),
		"metrics", l.metrics.Addr().String())

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

// announce reports serving after the keys were read, or after a timeout. Then requests that need no key
// are served, and the others are refused.
func announce(ctx context.Context, state *health.Server, isReady func() bool) {
	limit := time.Now().Add(keysWait)
	for !isReady() && time.Now().Before(limit) && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
	}
	if ctx.Err() == nil {
		state.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
	}
}
