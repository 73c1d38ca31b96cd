// Command relay lets clients of an inference gateway use models that run elsewhere: on Vertex AI, on
// Cloud Run, at another provider, or on any OpenAI-compatible server.
//
//	relay --config FILE [--port 8000] [--metrics-port 9013]
//
// As a backend, it is behind a Service: for each request, it reads the model's name from the body,
// replaces it with the target's name, adds the platform's credential, and streams the response back. As
// the fallback of a model (`fallback` in the file), it is also a replica of the model's InferencePool:
// it serves the metrics of an engine, so that the pool's picker chooses it if no engine has capacity.
//
// Credentials are read at run time, from Secret Manager or as tokens of the pod's identity. Credentials
// and bodies are never logged.
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
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"gke-inference/gateway/internal/holding"
	"gke-inference/gateway/internal/watch"
	"gke-inference/gateway/relay/internal/config"
	"gke-inference/gateway/relay/internal/credential"
	"gke-inference/gateway/relay/internal/fallback"
	"gke-inference/gateway/relay/internal/relay"
)

const (
	usageError = 2
	readTime   = 10 * time.Second
	account    = "/var/run/secrets/kubernetes.io/serviceaccount"
)

type options struct {
	config      string
	address     string
	account     string
	port        int
	metricsPort int
	bodies      holding.Settings
	drain       time.Duration
	grace       time.Duration
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
	flags := flag.NewFlagSet("relay", flag.ContinueOnError)
	flags.StringVar(&o.config, "config", "", "file of backends (required)")
	flags.StringVar(&o.address, "address", "", "address to listen on; empty means all")
	flags.StringVar(&o.account, "account", account, "folder of the pod's service account")
	flags.IntVar(&o.port, "port", 8000, "port of the API and of /health")
	flags.IntVar(&o.metricsPort, "metrics-port", 9013, "port of the relay's own /metrics")
	o.bodies.Flags(flags)
	flags.DurationVar(&o.drain, "drain", 15*time.Second, "time between reporting not ready and refusing new requests")
	flags.DurationVar(&o.grace, "grace", 10*time.Minute, "maximum time for active requests to finish")
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
	case o.drain < 0 || o.grace < 0:
		return o, fmt.Errorf("--drain and --grace: must not be negative, got %s and %s", o.drain, o.grace)
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
	hosts, err := relay.ParseHosts(os.Getenv("RELAY_HOSTS"))
	if err != nil {
		return err
	}
	hold := holding.New(o.bodies.Limits)
	metrics := relay.NewMetrics(hold)
	server := &relay.Server{
		Config: file.Current, Metrics: metrics, Hold: hold, Limits: o.bodies,
		Attempts: relay.NewAttempts(credential.NewStore(), metrics, hosts),
	}
	// active requests end after the signal, and so do their counters
	working, done := context.WithCancel(context.Background())
	var followers sync.WaitGroup
	defer func() { done(); followers.Wait() }()
	followers.Go(func() { file.Follow(working, func(*config.Config) {}) })
	var gate *fallback.Gate
	if file.Current().Fallback != nil {
		if gate, err = newGate(o, file, server, working, &followers); err != nil {
			return err
		}
		server.Admission = gate
	}
	return serve(ctx, o, relay.New(server), gate)
}

func newGate(
	o options, file *watch.File[config.Config], server *relay.Server, working context.Context, followers *sync.WaitGroup,
) (*fallback.Gate, error) {
	kube, err := fallback.NewKube(o.account)
	if err != nil {
		return nil, err
	}
	settings := func() *config.Fallback { return file.Current().Fallback }
	gate := &fallback.Gate{
		Settings: settings, Engines: fallback.NewEngines(kube), Budget: fallback.NewBudget(kube),
		Running: server.Running,
	}
	gate.Register(server.Metrics.Registry)
	followers.Go(func() { gate.Engines.Follow(working, settings) })
	followers.Go(func() { gate.Budget.Follow(working, settings) })
	return gate, nil
}

func serve(ctx context.Context, o options, server *relay.Server, gate *fallback.Gate) error {
	var isDraining atomic.Bool
	pages := http.NewServeMux()
	pages.Handle("/v1/", server)
	pages.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		if isDraining.Load() || gate != nil && !gate.IsReady() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	// a restart does not help a fallback without budget
	pages.HandleFunc("GET /alive", func(http.ResponseWriter, *http.Request) {})
	if gate != nil {
		pages.HandleFunc("GET /metrics", gate.ServeMetrics)
	}
	own := http.NewServeMux()
	own.Handle("/metrics", promhttp.HandlerFor(server.Metrics.Registry, promhttp.HandlerOpts{}))
	web := &http.Server{Handler: pages, ReadHeaderTimeout: readTime, IdleTimeout: 11 * time.Minute}
	watched := &http.Server{Handler: own, ReadHeaderTimeout: readTime}
	failed := make(chan error, 2)
	for _, one := range []struct {
		server *http.Server
		port   int
	}{{web, o.port}, {watched, o.metricsPort}} {
		listener, err := net.Listen("tcp", net.JoinHostPort(o.address, fmt.Sprint(one.port)))
		if err != nil {
			return err
		}
		go func() { failed <- one.server.Serve(listener) }()
	}
	slog.Info("serving", "port", o.port, "metrics", o.metricsPort)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	isDraining.Store(true)
	slog.Info("draining", "seconds", o.drain.Seconds())
	time.Sleep(o.drain)
	limit, done := context.WithTimeout(context.Background(), o.grace)
	defer done()
	if err := web.Shutdown(limit); err != nil {
		slog.Warn("requests canceled", "running", server.Running())
	}
	return watched.Close()
}
