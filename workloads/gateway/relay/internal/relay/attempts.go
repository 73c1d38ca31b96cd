package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"gke-inference/gateway/relay/internal/config"
	"gke-inference/gateway/relay/internal/openai"
)

const (
	connectTimeout = 5 * time.Second
	// overloaded is the status that Anthropic returns when it has no capacity.
	overloaded = 529
)

// Credentials returns the credentials for targets.
type Credentials interface {
	Header(ctx context.Context, auth config.Auth) (string, error)
	Forget(auth config.Auth)
}

// Attempts calls the targets of a backend until one responds; it is a RoundTripper for a whole backend.
// The next target is called only if the previous one cannot have used tokens: it is unreachable, or returns 429, 503
// or 529. It is also called if the previous one sent no byte of a stream in time: no client waits for tokens that a
// stalled target has perhaps used.
type Attempts struct {
	Credentials Credentials
	Metrics     *Metrics
	// Hosts replaces hosts by addresses on this machine, in tests.
	Hosts     map[string]*url.URL
	transport *http.Transport
}

// NewAttempts returns a RoundTripper for targets.
func NewAttempts(credentials Credentials, metrics *Metrics, hosts map[string]*url.URL) *Attempts {
	dialer := &net.Dialer{Timeout: connectTimeout}
	return &Attempts{
		Credentials: credentials, Metrics: metrics, Hosts: hosts,
		transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: connectTimeout, ForceAttemptHTTP2: true,
			DisableCompression: true, MaxIdleConnsPerHost: 256, IdleConnTimeout: 90 * time.Second,
		},
	}
}

const everyHost = "*"

// ParseHosts reads HOST=URL pairs, separated by commas. The host * matches every host except this
// machine. Only addresses on this machine are accepted, so that the environment cannot redirect
// credentials.
func ParseHosts(text string) (map[string]*url.URL, error) {
	found := map[string]*url.URL{}
	for pair := range strings.SplitSeq(text, ",") {
		if pair == "" {
			continue
		}
		host, address, _ := strings.Cut(pair, "=")
		at, err := url.Parse(address)
		if err != nil || !config.IsLoopback(at) {
			return nil, fmt.Errorf("RELAY_HOSTS: must have HOST=URL with an address on this machine, got %q", pair)
		}
		found[host] = at
	}
	return found, nil
}

// RoundTrip calls one target after the other.
func (a *Attempts) RoundTrip(r *http.Request) (*http.Response, error) {
	made := callOf(r)
	var last error = openai.Failed(http.StatusBadGateway, "backend_unreachable", "The model's backend has no target.")
	var answer *http.Response
	hasStalled := false
	for _, target := range order(made.backend.Targets, made.path) {
		began := time.Now()
		next, err := a.tryStream(r, made, func(r *http.Request) (*http.Response, error) { return a.try(r, made, target) })
		result, again := judged(next, err)
		hasStalled = hasStalled || errors.Is(err, openai.ErrStalled)
		made.isSent = hasStalled || err != nil && !again
		a.Metrics.Attempts.WithLabelValues(made.name, target.Name, result).Inc()
		if result != "ok" && r.Context().Err() == nil {
			slog.Warn("target failed", "backend", made.name, "target", target.Name, "result", result)
		}
		if answer != nil {
			answer.Body.Close()
		}
		answer, last = next, err
		if !again || r.Context().Err() != nil {
			if result == "ok" {
				a.Metrics.First.WithLabelValues(made.name).Observe(time.Since(began).Seconds())
			}
			break
		}
	}
	return answer, last
}

// try calls a target, and retries once if it refuses a credential that may have been replaced.
func (a *Attempts) try(r *http.Request, made *call, target *config.Target) (*http.Response, error) {
	answer, used, err := a.send(r, made, target)
	if err != nil || answer.StatusCode != http.StatusUnauthorized || target.Auth.Kind == config.AuthNone {
		return answer, err
	}
	a.Credentials.Forget(target.Auth)
	if now, err := a.Credentials.Header(r.Context(), target.Auth); err != nil || now == used {
		return answer, nil
	}
	answer.Body.Close()
	answer, _, err = a.send(r, made, target)
	return answer, err
}

func (a *Attempts) send(r *http.Request, made *call, target *config.Target) (*http.Response, string, error) {
	header, err := a.Credentials.Header(r.Context(), target.Auth)
	if err != nil {
		if r.Context().Err() != nil {
			return nil, "", r.Context().Err()
		}
		slog.Error("no credential", "backend", made.name, "target", target.Name, "error", err.Error())
		return nil, "", errNoCredential
	}
	at, err := url.Parse(strings.TrimSuffix(target.URL, "/") + "/" + made.path)
	if err != nil { // the configuration has been validated
		return nil, "", err
	}
	host := at.Host
	if moved := a.moved(at); moved != nil {
		at.Scheme, at.Host = moved.Scheme, moved.Host
	}
	body := made.request.For(target.Model)
	var isConnected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { isConnected.Store(true) }}
	sent := r.Clone(httptrace.WithClientTrace(r.Context(), trace))
	sent.URL, sent.Host = at, host
	sent.Body = io.NopCloser(bytes.NewReader(body))
	sent.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	sent.ContentLength = int64(len(body))
	sent.TransferEncoding = nil
	sent.Header.Set("User-Agent", "gke-inference-relay")
	sent.Header.Set("Content-Type", "application/json")
	if header != "" {
		sent.Header.Set("Authorization", header)
	}
	answer, err := a.transport.RoundTrip(sent)
	if err != nil && !isConnected.Load() && r.Context().Err() == nil {
		err = &unreached{err}
	}
	if answer != nil {
		answer.Request = r // without the credential
	}
	return answer, header, err
}

// moved returns the replacement for an address, or nil.
func (a *Attempts) moved(at *url.URL) *url.URL {
	if found, has := a.Hosts[at.Host]; has {
		return found
	}
	if config.IsLoopback(at) {
		return nil
	}
	return a.Hosts[everyHost]
}

var errNoCredential = openai.Failed(http.StatusBadGateway, "backend_credentials",
	"The platform has no credential for the model's backend.")

// unreached is the reason why there is no connection, including TLS: nothing was sent to the target.
type unreached struct{ error }

func (u *unreached) Unwrap() error { return u.error }

// judged returns the result of a call in one word, and whether another target may be called.
func judged(answer *http.Response, err error) (string, bool) {
	var away *unreached
	switch {
	case errors.Is(err, errNoCredential):
		return "no_credential", true
	case errors.As(err, &away):
		return "unreachable", true
	case errors.Is(err, openai.ErrStalled):
		return "stalled", true
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout", false
	case errors.Is(err, context.Canceled):
		return "canceled", false
	case err != nil:
		return "broken", false
	}
	switch answer.StatusCode {
	case http.StatusOK:
		return "ok", false
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, overloaded:
		return fmt.Sprint(answer.StatusCode), true
	}
	return fmt.Sprint(answer.StatusCode), false
}

// order returns the targets that support a path, in random order by weight.
func order(targets []*config.Target, path string) []*config.Target {
	var left, drawn []*config.Target
	total := 0
	for _, target := range targets {
		if has(target, path) {
			left = append(left, target)
			total += target.Weight
		}
	}
	for len(left) > 0 {
		at, ticket := 0, rand.IntN(total)
		for ticket >= left[at].Weight {
			ticket -= left[at].Weight
			at++
		}
		drawn = append(drawn, left[at])
		total -= left[at].Weight
		left = append(left[:at:at], left[at+1:]...)
	}
	return drawn
}
