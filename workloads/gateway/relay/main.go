// Command relay lets clients of an inference gateway use models that run elsewhere: on Vertex AI, on
// Cloud Run, at another provider, or on any OpenAI-compatible server.
//
//	relay --config FILE [--port 8000] [--metrics-port 9013]
//	relay --config-variable NAME [--port 8000] [--metrics-port 9013]
//	relay --check-config FILE
//
// As a backend, it is behind a Service: for each request, it reads the model's name from the body,
// replaces it with the target's name, adds the platform's credential, and streams the response back. As
// the fallback of a model (`fallback` in the file), it is also a replica of the model's InferencePool:
// it serves the metrics of an engine, so that the pool's picker chooses it if no engine has capacity. Such a
// replica can also let requests wait for the first engine of a model that has none (`wait`).
//
// As the router of a front (`front` in the file), it is behind a global load balancer, outside all clusters:
// for each request, it reads the model's name and passes the request to the gateway of a region that serves
// it. It has no credential but for Model Armor, which can check prompts before that.
//
// Credentials are read at run time, from Secret Manager or as tokens of the pod's identity. Credentials
// and bodies are never logged.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"gke-inference/gateway/internal/holding"
	"gke-inference/gateway/internal/program"
	"gke-inference/gateway/internal/watch"
	"gke-inference/gateway/relay/internal/config"
	"gke-inference/gateway/relay/internal/credential"
	"gke-inference/gateway/relay/internal/fallback"
	"gke-inference/gateway/relay/internal/front"
	"gke-inference/gateway/relay/internal/relay"
	"gke-inference/gateway/relay/internal/waiting"
)

const account = "/var/run/secrets/kubernetes.io/serviceaccount"

type options struct {
	config      watch.Flags
	address     string
	account     string
	port        int
	metricsPort int
	bodies      holding.Settings
	drain       time.Duration
	grace       time.Duration
}

func main() { program.Main(parse, run) }

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("relay", flag.ContinueOnError)
	o.config.Flags(flags, "file of backends")
	o.config.VariableFlag(flags, "backends")
	flags.StringVar(&o.address, "address", "", "address to listen on; empty means all")
	flags.StringVar(&o.account, "account", account, "folder of the pod's service account")
	flags.IntVar(&o.port, "port", 8000, "port of the API and of /health")
	flags.IntVar(&o.metricsPort, "metrics-port", 9013, "port of the relay's own /metrics")
	o.bodies.Flags(flags)
	flags.DurationVar(&o.drain, "drain", 15*time.Second, "time between reporting not ready and refusing new requests")
	flags.DurationVar(&o.grace, "grace", 10*time.Minute, "maximum time for active requests to finish")
	if err := program.Parse(flags, args); err != nil {
		return o, err
	}
	if o.drain < 0 || o.grace < 0 {
		return o, fmt.Errorf("--drain and --grace: must not be negative, got %s and %s", o.drain, o.grace)
	}
	if err := o.config.Check(); err != nil {
		return o, err
	}
	return o, o.bodies.Check()
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
	hosts, err := relay.ParseHosts(os.Getenv("RELAY_HOSTS"))
	if err != nil {
		return err
	}
	hold := holding.New(o.bodies.Limits)
	if file.Current().Front != nil {
		router := front.New(&front.Router{
			Config: file.Current, Hold: hold, Limits: o.bodies, Hosts: hosts,
			Armor: credential.NewArmor(credential.NewStore()),
		})
		return serve(ctx, o, service{path: "/", handler: router, running: router.Running})
	}
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
	served := service{
		path: "/v1/", handler: relay.New(server), running: server.Running,
		own: promhttp.HandlerFor(server.Metrics.Registry, promhttp.HandlerOpts{}),
	}
	if gate != nil {
		served.isReady, served.metrics = gate.IsReady, gate.ServeMetrics
		if gate.Settings().Wait != nil {
			room := newRoom(o, gate, hold)
			room.Register(server.Metrics.Registry)
			if gate.Budget != nil {
				room.Backend, room.Pays = served.handler, gate.Pays
			}
			served.path, served.handler = "/", room
			served.running = func() int64 { return server.Running() + room.Running() }
			gate.Running = served.running
		}
	}
	return serve(ctx, o, served)
}

func newRoom(o options, gate *fallback.Gate, hold *holding.Hold) *waiting.Room {
	return waiting.New(&waiting.Room{
		Settings: gate.Settings, Engines: gate.Engines.Hosts, Hold: hold, Limits: o.bodies,
		Interval: waiting.Interval, Silence: waiting.Silence,
	})
}

func newGate(
	o options, file *watch.File[config.Config], server *relay.Server, working context.Context, followers *sync.WaitGroup,
) (*fallback.Gate, error) {
	kube, err := fallback.NewKube(o.account)
	if err != nil {
		return nil, err
	}
	settings := func() *config.Fallback { return file.Current().Fallback }
	gate := &fallback.Gate{Settings: settings, Engines: fallback.NewEngines(kube), Running: server.Running}
	if len(file.Current().Backends) > 0 {
		gate.Budget = fallback.NewBudget(kube)
		followers.Go(func() { gate.Budget.Follow(working, settings) })
	}
	gate.Register(server.Metrics.Registry)
	followers.Go(func() { gate.Engines.Follow(working, settings) })
	return gate, nil
}

// service is what the program serves in its role.
type service struct {
	// handler serves the requests for a path.
	path    string
	handler http.Handler
	// running returns the number of active requests.
	running func() int64
	// isReady, metrics and own are nil if the role has no readiness of its own, no metrics of an engine, and
	// none of its own.
	isReady func() bool
	metrics http.HandlerFunc
	own     http.Handler
}

func serve(ctx context.Context, o options, served service) error {
	var isDraining atomic.Bool
	pages := http.NewServeMux()
	pages.Handle(served.path, served.handler)
	pages.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		if isDraining.Load() || served.isReady != nil && !served.isReady() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	// a restart does not help a fallback without budget
	pages.HandleFunc("GET /alive", func(http.ResponseWriter, *http.Request) {})
	if served.metrics != nil {
		pages.HandleFunc("GET /metrics", served.metrics)
	}
	own := http.NewServeMux()
	if served.own != nil {
		own.Handle("/metrics", served.own)
	}
	web, watched := program.Web(pages), program.Web(own)
	web.IdleTimeout = 11 * time.Minute
	ports, err := program.Listen(o.address, o.port, o.metricsPort)
	if err != nil {
		return err
	}
	failed := make(chan error, len(ports))
	go func() { failed <- web.Serve(ports[0]) }()
	go func() { failed <- watched.Serve(ports[1]) }()
	slog.Info("serving", "port", o.port, "metrics", o.metricsPort)
	if err := program.Until(ctx, failed); err != nil {
		return err
	}
	isDraining.Store(true)
	program.Drain(o.drain)
	limit, done := context.WithTimeout(context.Background(), o.grace)
	defer done()
	if err := web.Shutdown(limit); err != nil {
		slog.Warn("requests canceled", "running", served.running())
	}
	return watched.Close()
}
