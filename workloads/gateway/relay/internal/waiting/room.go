// Package waiting lets requests wait for the first engine of a model that has none.
package waiting

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gke-inference/gateway/internal/apierror"
	"gke-inference/gateway/internal/holding"
	"gke-inference/gateway/internal/paths"
	"gke-inference/gateway/relay/internal/config"
	"gke-inference/gateway/relay/internal/relay"
)

const (
	// Interval is the time between two comments in a stream that waits. Clients and proxies between them and
	// the gateway close connections without bytes.
	Interval = 10 * time.Second
	// Silence is how long a request waits that is no stream, and so gets no byte meanwhile: Envoy, of which the load
	// balancer is made, ends a request after 5 minutes without one (stream_idle_timeout). The rest is for the answer.
	Silence = 240 * time.Second
	// lookInterval is the time between two looks for an engine, as often as engines are read.
	lookInterval = 200 * time.Millisecond
	// connectTimeout is how long an engine has to accept a connection before another is tried.
	connectTimeout = 2 * time.Second
	// bodyCopies of a body exist while it is sent.
	bodyCopies = 1
	// soonest and latest are the limits of Retry-After, in seconds.
	soonest, latest = 5, 3600
)

const (
	objectiveHeader = "X-Gateway-Inference-Objective"
	teamHeader      = "X-Gateway-Inference-Fairness-Id"
)

// results are how a wait can end.
var results = []string{"body", "canceled", "engine", "too_long", "too_many"}

// Room has the requests that wait. They go to an engine as they came once one responds.
type Room struct {
	Settings func() *config.Fallback
	// Engines returns the engines that respond, as HOST:PORT.
	Engines func() []string
	Hold    *holding.Hold
	Limits  holding.Settings
	// Backend answers requests while Pays returns true; both are nil if no backend does.
	Backend http.Handler
	Pays    func() bool
	// Interval is that of comments in streams, and Silence the limit of the wait of other requests.
	Interval, Silence time.Duration

	waiting atomic.Int64
	running atomic.Int64
	next    atomic.Uint64
	// since is when the first request found no engine, in nanoseconds, and 0 while there is one.
	since     atomic.Int64
	wakes     prometheus.Counter
	ends      *prometheus.CounterVec
	seconds   prometheus.Histogram
	proxy     *httputil.ReverseProxy
	transport *http.Transport
}

// New returns an empty room.
func New(room *Room) *Room {
	room.wakes = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "relay_wakes_total", Help: "Requests that found no engine.",
	})
	room.ends = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "relay_waits_total", Help: "Requests that had to wait, by how that ended.",
	}, []string{"result"})
	for _, result := range results { // an increase needs the value before it
		room.ends.WithLabelValues(result)
	}
	room.seconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "relay_wait_seconds", Help: "Time for which requests waited that an engine got.",
		Buckets: []float64{1, 5, 15, 30, 60, 120, 240, 360, 480, 600, 900},
	})
	room.transport = &http.Transport{
		DialContext: (&net.Dialer{Timeout: connectTimeout}).DialContext, DisableCompression: true,
		MaxIdleConnsPerHost: 256, IdleConnTimeout: 90 * time.Second,
	}
	room.proxy = &httputil.ReverseProxy{
		Rewrite:       func(*httputil.ProxyRequest) {},
		Transport:     roundTripper(room.send),
		FlushInterval: -1,
		ErrorHandler:  failed,
	}
	return room
}

// Register adds the metrics of the room.
func (r *Room) Register(registry *prometheus.Registry) {
	registry.MustRegister(r.wakes, r.ends, r.seconds, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "relay_waiting_requests", Help: "Requests that wait for an engine.",
	}, func() float64 { return float64(r.waiting.Load()) }))
}

// Running returns the number of active requests, except those of the backend.
func (r *Room) Running() int64 { return r.running.Load() }

// ServeHTTP answers a request by the backend or by an engine, for which it may have to wait.
func (r *Room) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	settings, engines := r.Settings(), r.Engines()
	if settings == nil || settings.Wait == nil {
		r.full("The model is starting.").On(req.URL.Path).Write(w)
		return
	}
	wakes := req.Method == http.MethodPost && paths.IsPrompt(req.URL.Path)
	if len(engines) > 0 {
		r.since.Store(0)
	} else if wakes {
		r.wakes.Inc()
		r.since.CompareAndSwap(0, time.Now().UnixNano())
	}
	if r.Backend != nil && wakes && relay.Serves(req.URL.Path) && r.Pays() &&
		!slices.Contains(settings.Refused, req.Header.Get(objectiveHeader)) {
		r.Backend.ServeHTTP(w, req)
		return
	}
	if len(engines) == 0 && !wakes {
		r.full("The model has no replica. A request for an answer starts one.").On(req.URL.Path).Write(w)
		return
	}
	r.running.Add(1)
	defer r.running.Add(-1)
	r.wait(w, req, settings.Wait, len(engines) > 0)
}

// wait holds a request until an engine answers it.
func (r *Room) wait(w http.ResponseWriter, req *http.Request, limits *config.Wait, hasEngine bool) {
	if !hasEngine {
		if r.waiting.Add(1) > int64(limits.Requests) {
			r.waiting.Add(-1)
			r.ends.WithLabelValues("too_many").Inc()
			r.full("The model is starting, and as many requests wait for it as may.").On(req.URL.Path).Write(w)
			return
		}
	}
	made := &held{
		room: r, path: req.URL.Path, limit: seconds(limits.Seconds), isWaiting: !hasEngine,
		began: time.Now(), out: &writer{ResponseWriter: w, path: req.URL.Path},
	}
	defer made.leave("canceled")
	body, refused := r.Limits.Receive(r.Hold, req.Header.Get(teamHeader), bodyCopies, w, req)
	if refused != nil {
		if refused.Code == holding.TooManyCode {
			refused = r.full("The model is starting, and the requests that wait for it are too large for one more.")
		}
		made.leave("body")
		refused.On(req.URL.Path).Write(w)
		return
	}
	defer body.End()
	made.body = body.Whole()
	made.isStream = isStream(req.URL.Path, made.body)
	if !made.isStream {
		made.limit = min(made.limit, r.Silence)
	}
	defer made.out.end()
	r.proxy.ServeHTTP(made.out, req.WithContext(context.WithValue(req.Context(), heldKey{}, made)))
}

// full refuses a request that can be sent again once an engine is expected.
func (r *Room) full(message string) *apierror.Error {
	fault := &apierror.Error{
		Status: http.StatusServiceUnavailable, Type: "server_error", Code: "model_starting", Message: message,
	}
	return fault.With("retry-after", strconv.Itoa(r.retryAfter()))
}

// retryAfter returns the seconds until an engine is expected.
func (r *Room) retryAfter() int {
	settings := r.Settings()
	if settings == nil || settings.Wait == nil {
		return soonest
	}
	left := seconds(settings.Wait.ExpectedSeconds)
	if since := r.since.Load(); since != 0 {
		left -= time.Since(time.Unix(0, since))
	}
	return int(math.Ceil(min(latest, max(soonest, left.Seconds()))))
}

func seconds(number float64) time.Duration { return time.Duration(number * float64(time.Second)) }

// held is a request that waits.
type held struct {
	room      *Room
	path      string
	body      []byte
	isStream  bool
	isWaiting bool
	began     time.Time
	limit     time.Duration
	out       *writer
}

type heldKey struct{}

// leave counts how the wait of a request ended, once.
func (h *held) leave(result string) {
	if !h.isWaiting {
		return
	}
	h.isWaiting = false
	h.room.waiting.Add(-1)
	h.room.ends.WithLabelValues(result).Inc()
	if result == "engine" {
		h.room.seconds.Observe(time.Since(h.began).Seconds())
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// errLate ends the wait of a request.
var errLate = errors.New("no engine in time")

// send waits for an engine and sends it the request. An engine that accepts no connection has not seen it, so
// the request goes on waiting.
func (r *Room) send(req *http.Request) (*http.Response, error) {
	made, _ := req.Context().Value(heldKey{}).(*held) // wait sets it
	for {
		host, err := r.engine(req.Context(), made)
		if err != nil {
			return nil, err
		}
		var isConnected atomic.Bool
		trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
			isConnected.Store(true)
			made.leave("engine")
		}}
		sent := req.Clone(httptrace.WithClientTrace(req.Context(), trace))
		sent.URL.Scheme, sent.URL.Host = "http", host
		sent.Host = req.Host
		sent.Body = io.NopCloser(bytes.NewReader(made.body))
		sent.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(made.body)), nil }
		sent.ContentLength, sent.TransferEncoding = int64(len(made.body)), nil
		answer, err := r.transport.RoundTrip(sent)
		if err == nil {
			answer.Request = req
			return answer, nil
		}
		if isConnected.Load() || req.Context().Err() != nil {
			return nil, err
		}
		slog.Warn("engine not reached", "host", host, "error", err.Error())
		if time.Since(made.began) >= made.limit {
			made.leave("too_long")
			return nil, errLate
		}
		if err := pause(req.Context(), lookInterval); err != nil {
			return nil, err
		}
	}
}

// engine returns the next engine, after a wait if there is none.
func (r *Room) engine(ctx context.Context, made *held) (string, error) {
	said := time.Now()
	for {
		if hosts := r.Engines(); len(hosts) > 0 {
			r.since.Store(0)
			return hosts[r.next.Add(1)%uint64(len(hosts))], nil
		}
		if time.Since(made.began) >= made.limit {
			made.leave("too_long")
			return "", errLate
		}
		if made.isStream && time.Since(said) >= r.Interval {
			said = time.Now()
			if err := made.out.comment(r.progress(made)); err != nil {
				return "", err
			}
		}
		if err := pause(ctx, lookInterval); err != nil {
			return "", err
		}
	}
}

func (r *Room) progress(made *held) string {
	waited := int(time.Since(made.began).Seconds())
	return "waiting for a replica of the model: " + strconv.Itoa(waited) + " s, about " +
		strconv.Itoa(r.retryAfter()) + " s left"
}

func pause(ctx context.Context, time_ time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time_):
		return nil
	}
}

// failed responds to a request that no engine answered.
func failed(w http.ResponseWriter, req *http.Request, err error) {
	made, _ := req.Context().Value(heldKey{}).(*held) // wait sets it
	switch {
	case req.Context().Err() != nil: // the client disconnected
	case errors.Is(err, errLate):
		made.room.full("The model did not start in the time for which requests wait.").On(made.path).Write(w)
	default:
		apierror.Failed(http.StatusBadGateway, "engine_failed", "The model's replica did not answer.").On(made.path).Write(w)
	}
}

// streams are the paths whose answers can be streams of events, which may have comments.
var streams = map[string]bool{
	paths.Chats: true, paths.Completions: true, paths.Responses: true, paths.Messages: true,
}

func isStream(path string, body []byte) bool {
	var found struct {
		Stream bool `json:"stream"`
	}
	return streams[path] && json.Unmarshal(body, &found) == nil && found.Stream
}
