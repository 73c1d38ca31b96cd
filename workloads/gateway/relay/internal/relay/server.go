// Package relay sends OpenAI API requests to models that run elsewhere.
package relay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"gke-inference/gateway/internal/holding"
	"gke-inference/gateway/internal/paths"
	"gke-inference/gateway/relay/internal/config"
	"gke-inference/gateway/relay/internal/openai"
)

const prefix = "/v1/"

// Paths are the paths that the relay serves; a target can have fewer.
var Paths = []string{"chat/completions", "completions", "embeddings"}

// clientGone is the status of a request whose client disconnected, as in proxy logs.
const clientGone = 499

// Admission admits or refuses requests. Spent is called once for each admitted request, and Answered
// with the status that its client received.
type Admission interface {
	Admit(headers http.Header, guess openai.Usage) (spent func(openai.Usage), refused *openai.Error)
	Answered(status int)
}

// Server handles the requests of clients.
type Server struct {
	Config    func() *config.Config
	Metrics   *Metrics
	Attempts  *Attempts
	Admission Admission
	// Hold has the bodies of requests until a target answers.
	Hold *holding.Hold
	// Limits are those of the bodies.
	Limits holding.Settings

	running atomic.Int64
	proxy   *httputil.ReverseProxy
}

// New returns a server.
func New(server *Server) *Server {
	server.proxy = &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { keep(r.Out.Header, requestHeaders) },
		Transport:      server.Attempts,
		FlushInterval:  -1,
		ModifyResponse: answered,
		ErrorHandler:   failed,
	}
	return server
}

// Serves reports whether the relay serves a path; a target can serve fewer.
func Serves(path string) bool {
	found, is := strings.CutPrefix(path, prefix)
	return is && contains(Paths, found)
}

// Running returns the number of active requests.
func (s *Server) Running() int64 { return s.running.Load() }

// call is an active request.
type call struct {
	backend *config.Backend
	name    string
	path    string
	request *openai.Request
	held    *holding.Body
	end     func(openai.Usage)
	status  int
	// isSent is set if the last called target, or one that stalled, may have used tokens.
	isSent bool
	// isRefused is set if the fallback does not admit the request.
	isRefused bool
}

type callKey struct{}

func callOf(r *http.Request) *call {
	found, _ := r.Context().Value(callKey{}).(*call) // ServeHTTP sets it
	return found
}

// ServeHTTP handles one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	made, refused := s.read(w, r)
	if refused != nil {
		s.count(made, refused.Status)
		refused.On(r.URL.Path).Write(w)
		return
	}
	s.running.Add(1)
	s.Metrics.InFlight.Inc()
	defer func() {
		s.running.Add(-1)
		s.Metrics.InFlight.Dec()
		made.held.End()
		s.Metrics.Requests.WithLabelValues(made.name, strconv.Itoa(made.status)).Inc()
		made.end(openai.Usage{})
		if s.Admission != nil {
			s.Admission.Answered(made.status)
		}
	}()
	limit := time.Duration(made.backend.TimeoutSeconds * float64(time.Second))
	ctx, cancel := context.WithTimeout(context.WithValue(r.Context(), callKey{}, made), limit)
	defer cancel()
	made.status = clientGone // until the response starts
	s.proxy.ServeHTTP(w, r.WithContext(ctx))
}

// count counts a request that reached no target. A refusal by the fallback is not a failure of its
// backend.
func (s *Server) count(made *call, status int) {
	switch {
	case made == nil:
		s.Metrics.Requests.WithLabelValues("", strconv.Itoa(status)).Inc()
	case made.isRefused:
		s.Metrics.Refusals.WithLabelValues(made.name).Inc()
	default:
		s.Metrics.Requests.WithLabelValues(made.name, strconv.Itoa(status)).Inc()
	}
}

func (s *Server) read(w http.ResponseWriter, r *http.Request) (*call, *openai.Error) {
	path, is := strings.CutPrefix(r.URL.Path, prefix)
	isServed := is && contains(Paths, path)
	isEngines := !isServed && s.Admission != nil && paths.IsPrompt(r.URL.Path)
	if (isServed || isEngines) && r.Method != http.MethodPost {
		return nil, openai.Invalid(http.StatusMethodNotAllowed, "method_not_allowed", "", "The method must be POST.")
	}
	if isEngines {
		// the model's engines serve the path; only now, none of them has room
		return nil, openai.Overloaded(http.StatusTooManyRequests, "model_overloaded",
			"No replica of the model had room for this request, and its fallback does not serve this path. Retry it later.", "")
	}
	if !isServed {
		return nil, openai.Invalid(http.StatusNotFound, "unknown_url", "", "This path is not served: "+r.URL.Path)
	}
	held, refused := s.hold(w, r)
	if refused != nil {
		return nil, refused
	}
	made, refused := s.admit(r, path, held)
	if refused != nil {
		held.End()
	}
	return made, refused
}

func (s *Server) admit(r *http.Request, path string, held *holding.Body) (*call, *openai.Error) {
	request, refused := openai.ParseRequest(path, held.Whole(), s.Config().Size)
	if refused != nil {
		return nil, refused
	}
	backend, has := s.Config().Backends[request.Model]
	if !has {
		return nil, openai.Invalid(http.StatusNotFound, "model_not_found", "model",
			"The model does not exist: "+clipped(request.Model))
	}
	made := &call{backend: backend, name: request.Model, path: path, request: request, held: held}
	if !backendHas(backend, path) {
		return made, openai.Invalid(http.StatusNotFound, "unknown_url", "", "The model does not support "+r.URL.Path+".")
	}
	spent := func(openai.Usage) {}
	if s.Admission != nil {
		request.DropCacheSalt()
		if spent, refused = s.Admission.Admit(r.Header, request.Guess()); refused != nil {
			made.isRefused = true
			return made, refused
		}
	}
	var isEnded atomic.Bool
	made.end = func(used openai.Usage) {
		if isEnded.Swap(true) {
			return
		}
		s.Metrics.Tokens.WithLabelValues(made.name, "input").Add(float64(used.Input))
		s.Metrics.Tokens.WithLabelValues(made.name, "output").Add(float64(used.Output))
		spent(used)
	}
	return made, nil
}

const longestName = 200

func clipped(name string) string { return name[:min(len(name), longestName)] }

func backendHas(backend *config.Backend, path string) bool {
	for _, target := range backend.Targets {
		if has(target, path) {
			return true
		}
	}
	return false
}

func has(target *config.Target, path string) bool {
	return len(target.Paths) == 0 || contains(target.Paths, path)
}

func contains(all []string, one string) bool {
	for _, each := range all {
		if each == one {
			return true
		}
	}
	return false
}

// Only these headers pass: a client's credential, cookies and address must not reach a provider, and
// other headers of a provider can name the platform's organization.
var (
	requestHeaders = map[string]bool{"Accept": true, "Content-Type": true}
	answerHeaders  = map[string]bool{
		"Cache-Control": true, "Content-Length": true, "Content-Type": true, "Retry-After": true,
	}
)

func keep(headers http.Header, kept map[string]bool) {
	for name := range headers {
		if !kept[name] {
			delete(headers, name)
		}
	}
}

// answered creates the client's response from a target's response.
func answered(answer *http.Response) error {
	made := callOf(answer.Request)
	if answer.StatusCode != http.StatusOK {
		mapped := mapError(answer)
		answer.Body.Close()
		if made.isSent {
			made.end(made.request.Guess())
		}
		made.status = mapped.Status
		replace(answer, mapped)
		return nil
	}
	if encoding := answer.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		answer.Body.Close() // nobody requested it, and its usage could not be read
		made.isSent, made.status = true, http.StatusBadGateway
		made.end(made.request.Guess())
		replace(answer, openai.Failed(http.StatusBadGateway, "backend_failed", "The model's backend responded in an encoding that was not requested."))
		return nil
	}
	made.status = http.StatusOK
	made.request.Sent() // no other target is called
	made.held.End()
	keep(answer.Header, answerHeaders)
	answer.Trailer = nil
	if made.request.Stream {
		strips := !made.request.AsksUsage && !made.backend.ForceUsage
		answer.Body = openai.NewStream(answer.Body, made.request, strips, made.end)
		answer.Header.Del("Content-Length") // an event can be removed
		answer.ContentLength = -1
		return nil
	}
	answer.Body = openai.NewWhole(answer.Body, made.request, made.end)
	return nil
}

func replace(answer *http.Response, with *openai.Error) {
	body := with.On(answer.Request.URL.Path).Body()
	answer.StatusCode = with.Status
	answer.Status = ""
	answer.Header = http.Header{"Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(body))}}
	for name, value := range with.Headers {
		answer.Header.Set(name, value)
	}
	answer.Trailer = nil
	answer.ContentLength = int64(len(body))
	answer.TransferEncoding = nil
	answer.Body = io.NopCloser(bytes.NewReader(body))
}

// failed responds to a request that no target served.
func failed(w http.ResponseWriter, r *http.Request, err error) {
	made := callOf(r)
	if made.isSent {
		made.end(made.request.Guess()) // the target may charge for the response that was lost
	}
	var mapped *openai.Error
	switch {
	case errors.As(err, &mapped):
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, openai.ErrStalled):
		mapped = timedOut()
	case errors.Is(err, context.Canceled):
		return
	default:
		mapped = openai.Failed(http.StatusBadGateway, "backend_unreachable", "The model's backend did not respond.")
	}
	made.status = mapped.Status
	mapped.On(r.URL.Path).Write(w)
}

func timedOut() *openai.Error {
	return openai.Failed(http.StatusGatewayTimeout, "backend_timeout", "The model's backend took too long.")
}
