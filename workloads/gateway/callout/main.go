// Command callout is the external processor of an inference gateway: it identifies the caller.
//
// Google's load balancer calls it for each request, as a GCPTrafficExtension of the Gateway with all
// six events and full-duplex bodies, after the model's route is chosen and before the endpoint picker.
// It verifies an API key, a token or a client certificate, checks that the caller's team may use the
// model, counts the team's requests, tokens and dollars across all replicas, and records the usage of
// each request.
//
//	callout --config FILE [--grpc-port 9010] [--health-port 9011] [--metrics-port 9012]
//	callout --check-config FILE
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
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"gke-inference/gateway/callout/internal/cache"
	"gke-inference/gateway/callout/internal/config"
	"gke-inference/gateway/callout/internal/extproc"
	"gke-inference/gateway/callout/internal/guard"
	"gke-inference/gateway/callout/internal/identity"
	"gke-inference/gateway/callout/internal/limits"
	"gke-inference/gateway/callout/internal/turns"
	"gke-inference/gateway/callout/internal/usage"
	"gke-inference/gateway/internal/calls"
	"gke-inference/gateway/internal/holding"
	"gke-inference/gateway/internal/program"
	"gke-inference/gateway/internal/watch"
)

const (
	keysWait = 10 * time.Second
	liveness = "liveness"
	// gcPercent lets the small heap grow more between collections than Go's default of 100, because a
	// collection delays requests. GOGC replaces it, and GOMEMLIMIT limits all memory
	// of the Go runtime.
	gcPercent = 400
)

type options struct {
	program.Processor
	config watch.Flags
	hidden calls.Names
}

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	program.Main(parse, run)
}

func parse(args []string) (options, error) {
	o := options{Processor: program.Processor{GRPCPort: 9010, HealthPort: 9011, MetricsPort: 9012}}
	flags := flag.NewFlagSet("callout", flag.ContinueOnError)
	o.config.Flags(flags, "file of teams, limits and prices")
	o.Flags(flags, "health-port")
	flags.Var(&o.hidden, "remove-response-headers", "headers that no client gets, separated by commas")
	flags.DurationVar(&limits.StoreTimeout, "store-timeout", limits.StoreTimeout, "maximum time that a request waits for the store")
	if err := program.Parse(flags, args); err != nil {
		return o, err
	}
	if limits.StoreTimeout <= 0 {
		return o, fmt.Errorf("--store-timeout: must be more than 0, got %s", limits.StoreTimeout)
	}
	if err := o.config.Check(); err != nil {
		return o, err
	}
	return o, o.Check()
}

func run(o options) error {
	if o.config.IsCheck() {
		return watch.Check(o.config, config.Parse)
	}
	ctx, stop := program.Signaled()
	defer stop()
	file, err := watch.Open(o.config, config.Parse)
	if err != nil {
		return err
	}
	secret := identity.NewSecret(file.Current().Keys.Secret)
	hold := holding.New(o.Bodies.Limits)
	metrics := usage.NewMetrics(func() (time.Duration, bool) { return secret.Age(time.Now()) }, hold)
	limiter := limits.New(metrics.StoreErrors.Inc)
	if err := limiter.Use(file.Current()); err != nil {
		return err
	}
	answers := cache.New()
	if err := answers.Use(file.Current().Cache); err != nil {
		return err
	}
	ports, err := o.Listen()
	if err != nil {
		return err
	}
	// active streams need keys and issuers until they end, so these outlive the signal
	working, done := context.WithCancel(context.Background())
	defer done()
	verifier := identity.NewVerifier(secret)
	go secret.Follow(working)
	verifier.Use(working, file.Current())
	go limiter.Follow(working)
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
		Records: usage.NewWriter(os.Stdout), Guards: guard.NewClient(), Turns: turns.New(),
		Hold: hold, Limits: o.Bodies, ForwardedHops: o.ForwardedHops, Hidden: o.hidden,
	}
	isReady := func() bool { return file.Current().Keys.Secret == "" || secret.Keys() != nil }
	// requests that end while the program stops are settled as well
	defer limiter.Catch(context.Background())
	return o.Serve(ctx, "callout", ports, processor, metrics.Registry, func(ctx context.Context, state *health.Server) {
		state.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
		state.SetServingStatus(liveness, healthpb.HealthCheckResponse_SERVING)
		go announce(ctx, state, isReady)
	})
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
