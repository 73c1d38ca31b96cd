// Package front routes the requests of a global load balancer to the gateways of regions, by the model in
// their body.
//
// A global external Application Load Balancer has no extension that could do so: its traffic extensions run
// after it has chosen a backend, and its edge extensions do not see the body. The program is the backend
// instead. It changes nothing in a request but the name of a model whose fallback answers, and it has no
// credential for models: the gate of a region checks every request.
package front

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gke-inference/gateway/internal/apierror"
	"gke-inference/gateway/internal/forms"
	"gke-inference/gateway/internal/holding"
	"gke-inference/gateway/relay/internal/config"
)

const (
	connectTimeout = 2 * time.Second
	healthTimeout  = time.Second
	healthPath     = "/healthz"
	// awayTime is how long a region that did not answer is asked last.
	awayTime = 10 * time.Second
	// bodyCopies of a body exist at a time: the body in one piece, and the fields of one whose model is
	// replaced.
	bodyCopies = 2
	forwarded  = "X-Forwarded-For"
	// hops are the addresses that the global load balancer appends: of its client, and its own.
	hops = 2
)

// Router handles the requests of clients.
type Router struct {
	Config func() *config.Config
	Hold   *holding.Hold
	Limits holding.Settings
	// Armor checks prompts, if the configuration has a guard.
	Armor Armor
	// Hosts replaces addresses by others on this machine, in tests.
	Hosts map[string]*url.URL
	// Authorities signed the certificates of the gateways. Default: those of the system.
	Authorities *tls.Config

	running atomic.Int64
	mutex   sync.Mutex
	away    map[string]time.Time
	clients map[string]*http.Transport
	proxy   *httputil.ReverseProxy
}

// New returns a router.
func New(router *Router) *Router {
	router.away = map[string]time.Time{}
	router.clients = map[string]*http.Transport{}
	router.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			if found := r.In.Header[forwarded]; len(found) > 0 {
				r.Out.Header[forwarded] = []string{client(found)}
			}
		},
		Transport: router, FlushInterval: -1, ErrorHandler: failed,
	}
	return router
}

// Running returns the number of active requests.
func (f *Router) Running() int64 { return f.running.Load() }

// client returns the addresses that the global load balancer appended: what a client sent before them means
// nothing, and gates count addresses from the end.
func client(values []string) string {
	all := strings.Split(strings.Join(values, ","), ",")
	kept := all[max(0, len(all)-hops):]
	for i, each := range kept {
		kept[i] = strings.TrimSpace(each)
	}
	return strings.Join(kept, ",")
}

// call is an active request.
type call struct {
	model string
	body  []byte
}

type callKey struct{}

// ServeHTTP handles one request.
func (f *Router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.running.Add(1)
	defer f.running.Add(-1)
	made := &call{}
	if r.Body != nil && r.Body != http.NoBody {
		from, _, _ := strings.Cut(client(r.Header[forwarded]), ",")
		held, refused := f.Limits.Receive(f.Hold, from, bodyCopies, w, r)
		if refused != nil {
			refused.On(r.URL.Path).Write(w)
			return
		}
		defer held.End()
		made.body = held.Whole()
		if refused := f.check(r, f.Config().Front.Guard, made.body); refused != nil {
			refused.On(r.URL.Path).Write(w)
			return
		}
		made.model = modelOf(r.Header["Content-Type"], made.body)
	}
	f.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callKey{}, made)))
}

// modelOf returns the model in a body, or "" if it names none: then any region refuses or answers it.
func modelOf(contentType []string, body []byte) string {
	if forms.Is(contentType) {
		boundary, fault := forms.Boundary(contentType)
		if fault != nil {
			return ""
		}
		form, fault := forms.Read(body, boundary)
		if fault != nil {
			return ""
		}
		body = form.JSON()
	}
	var fields map[string]json.RawMessage // a struct would take "Model" for it, which no gateway does
	var model string
	if json.Unmarshal(body, &fields) != nil || json.Unmarshal(fields["model"], &model) != nil {
		return ""
	}
	return model
}

// step is a region to ask, and the body for it.
type step struct {
	region string
	body   []byte
}

// RoundTrip asks one region after the other, until one answers.
func (f *Router) RoundTrip(r *http.Request) (*http.Response, error) {
	made, _ := r.Context().Value(callKey{}).(*call) // ServeHTTP sets it
	front := f.Config().Front
	var answer *http.Response
	last := error(errNobody)
	for _, next := range f.steps(front, made) {
		if answer != nil {
			answer.Body.Close()
		}
		answer, last = f.send(r, front, next)
		if !f.again(r, front, next.region, answer, last) {
			break
		}
		slog.Warn("region does not answer", "region", next.region, "model", made.model, "status", status(answer),
			"error", reason(last))
	}
	return answer, last
}

// steps returns the regions of a model, the nearest first and those that are away last, and then those that
// answer for its fallback.
func (f *Router) steps(front *config.Front, made *call) []step {
	var found []step
	model, isKnown := front.Models[made.model]
	if !isKnown {
		model = &config.FrontModel{Regions: front.Near}
	}
	for _, region := range f.ordered(model.Regions) {
		found = append(found, step{region, made.body})
	}
	if model.Fallback == "" {
		return found
	}
	body, is := renamed(made.body, model.Fallback)
	if !is {
		return found
	}
	for _, region := range f.ordered(front.Near) {
		found = append(found, step{region, body})
	}
	return found
}

func (f *Router) ordered(regions []string) []string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	var here, away []string
	for _, region := range regions {
		if time.Now().Before(f.away[region]) {
			away = append(away, region)
		} else {
			here = append(here, region)
		}
	}
	return append(here, away...)
}

// renamed returns a body with another model; false for a form.
func renamed(body []byte, model string) ([]byte, bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return nil, false
	}
	name, err := json.Marshal(model)
	if err != nil {
		return nil, false
	}
	fields["model"] = name
	made, err := json.Marshal(fields)
	return made, err == nil
}

func (f *Router) send(r *http.Request, front *config.Front, to step) (*http.Response, error) {
	var isConnected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { isConnected.Store(true) }}
	sent := r.Clone(httptrace.WithClientTrace(r.Context(), trace))
	f.address(sent.URL, front.Regions[to.region])
	sent.TransferEncoding = nil
	sent.ContentLength = int64(len(to.body))
	sent.Body, sent.GetBody = http.NoBody, nil
	if len(to.body) > 0 {
		sent.Body = io.NopCloser(bytes.NewReader(to.body))
		sent.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(to.body)), nil }
	}
	answer, err := f.transport(front.ServerName).RoundTrip(sent)
	if err != nil && !isConnected.Load() && r.Context().Err() == nil {
		err = &unreached{err}
	}
	if answer != nil {
		answer.Request = r
	}
	return answer, err
}

// address sets scheme and host of a region's gateway.
func (f *Router) address(at *url.URL, region string) {
	gateway, err := url.Parse(region)
	if err != nil { // the configuration has been validated
		return
	}
	if moved, has := f.Hosts[gateway.Host]; has {
		gateway = moved
	}
	at.Scheme, at.Host = gateway.Scheme, gateway.Host
}

func (f *Router) transport(serverName string) *http.Transport {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	found, has := f.clients[serverName]
	if !has {
		secure := &tls.Config{}
		if f.Authorities != nil {
			secure = f.Authorities.Clone()
		}
		secure.ServerName, secure.MinVersion = serverName, tls.VersionTLS12
		dialer := &net.Dialer{Timeout: connectTimeout}
		found = &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: connectTimeout, TLSClientConfig: secure,
			ForceAttemptHTTP2: true, DisableCompression: true, MaxIdleConnsPerHost: 256, IdleConnTimeout: 90 * time.Second,
		}
		f.clients[serverName] = found
	}
	return found
}

// again reports whether another region may be asked: this one has not begun an answer. Its gateway answers 502
// or 503 if nothing behind it took the request, and 500 if its router or gate is away, which its health tells
// from an engine's error.
func (f *Router) again(r *http.Request, front *config.Front, region string, answer *http.Response, err error) bool {
	if r.Context().Err() != nil {
		return false
	}
	var gone *unreached
	switch {
	case errors.As(err, &gone):
		f.leave(region)
		return true
	case err != nil:
		return false
	case answer.StatusCode == http.StatusBadGateway, answer.StatusCode == http.StatusServiceUnavailable:
		return true
	case answer.StatusCode == http.StatusInternalServerError && !f.isHealthy(r.Context(), front, region):
		f.leave(region)
		return true
	}
	return false
}

func (f *Router) leave(region string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.away[region] = time.Now().Add(awayTime)
}

// isHealthy asks a region for its health, which passes its router and its gate.
func (f *Router) isHealthy(ctx context.Context, front *config.Front, region string) bool {
	limit, done := context.WithTimeout(ctx, healthTimeout)
	defer done()
	at := &url.URL{Path: healthPath}
	f.address(at, front.Regions[region])
	asked, err := http.NewRequestWithContext(limit, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return false
	}
	asked.Host = front.ServerName
	answer, err := f.transport(front.ServerName).RoundTrip(asked)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

var errNobody = apierror.Failed(http.StatusServiceUnavailable, "service_unavailable", "No region answers.")

// unreached is the reason why there is no connection: nothing was sent.
type unreached struct{ error }

func (u *unreached) Unwrap() error { return u.error }

func reason(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func status(answer *http.Response) int {
	if answer == nil {
		return 0
	}
	return answer.StatusCode
}

// failed responds to a request that no region answered.
func failed(w http.ResponseWriter, r *http.Request, err error) {
	var known *apierror.Error
	switch {
	case errors.Is(err, context.Canceled):
		return
	case errors.As(err, &known):
	case errors.Is(err, context.DeadlineExceeded):
		known = apierror.Failed(http.StatusGatewayTimeout, "timeout", "The model took too long.")
	default:
		known = errNobody
	}
	known.On(r.URL.Path).Write(w)
}
