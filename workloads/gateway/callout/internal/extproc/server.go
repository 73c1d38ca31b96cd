// Package extproc implements the callout: Envoy's external processor for an inference gateway.
//
// The gateway calls it with full-duplex streams. The body of a request is held until its identity,
// model and limits are checked, then passes unchanged. The body of a response passes at once, piece by
// piece, while the engine's usage is read from it.
package extproc

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	mode "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"gke-inference/gateway/callout/internal/cache"
	"gke-inference/gateway/callout/internal/config"
	"gke-inference/gateway/callout/internal/guard"
	"gke-inference/gateway/callout/internal/identity"
	"gke-inference/gateway/callout/internal/limits"
	"gke-inference/gateway/callout/internal/openai"
	"gke-inference/gateway/callout/internal/turns"
	"gke-inference/gateway/callout/internal/usage"
	"gke-inference/gateway/internal/calls"
	"gke-inference/gateway/internal/holding"
	"gke-inference/gateway/internal/tokens"
)

// Server handles the calls of the gateway.
type Server struct {
	extproc.UnimplementedExternalProcessorServer

	Config   func() *config.Config
	Verifier *identity.Verifier
	Limiter  *limits.Limiter
	Cache    *cache.Cache
	Metrics  *usage.Metrics
	Records  *usage.Writer
	// Guards checks texts with the guards of the configuration.
	Guards *guard.Client
	// Hold has the bodies of requests until they are forwarded, and the answers that guards check as a whole.
	Hold *holding.Hold
	// Limits are those of the bodies.
	Limits holding.Settings
	// Turns has the requests in flight, by which those of a team wait in turn.
	Turns *turns.Counter
	// Rates are the measured speeds of the models.
	Rates tokens.Rates
	// ForwardedHops is the client's position in X-Forwarded-For, counted from the end.
	ForwardedHops int
	// Hidden are the headers of responses that no client gets.
	Hidden calls.Names

	warnMode sync.Once
}

// Process handles the calls for one request.
func (s *Server) Process(stream extproc.ExternalProcessor_ProcessServer) error {
	e := &exchange{Server: s, config: s.Config(), stream: stream, began: time.Now()}
	defer e.finish(false)
	defer e.release()
	return calls.Process(stream, e)
}

// Answered implements calls.Exchange.
func (e *exchange) Answered(err error) (isOver bool, left error) {
	var fault *openai.Error
	switch {
	case errors.As(err, &fault) && e.stream.Context().Err() != nil:
		return true, e.stream.Context().Err() // not an error: the client disconnected
	case errors.As(err, &fault):
		e.release()
		return true, e.refuse(fault)
	case errors.Is(err, errAnswered):
		return true, nil
	}
	return err != nil, err
}

// release gives back the memory of bodies.
func (e *exchange) release() {
	e.held.End()
	e.guarded.whole.End()
}

// Deadline implements calls.Exchange.
func (e *exchange) Deadline() *time.Timer { return e.deadline }

// Late implements calls.Exchange.
func (e *exchange) Late() error {
	if e.isStreaming {
		return e.stall()
	}
	return holding.Late(e.Limits.BodyTime)
}

// checkMode rejects modes that would forward a body before the decision about it.
func (s *Server) checkMode(call *extproc.ProcessingRequest) error {
	protocol := call.GetProtocolConfig()
	if protocol == nil {
		return nil
	}
	for _, found := range []mode.ProcessingMode_BodySendMode{protocol.GetRequestBodyMode(), protocol.GetResponseBodyMode()} {
		if found != mode.ProcessingMode_NONE && found != mode.ProcessingMode_FULL_DUPLEX_STREAMED {
			s.warnMode.Do(func() {
				slog.Error("body mode of the gateway: must be FullDuplexStreamed", "got", found.String())
			})
			return status.Errorf(codes.FailedPrecondition, "body mode must be FULL_DUPLEX_STREAMED, got %s", found)
		}
	}
	return nil
}

// Handle implements calls.Exchange.
func (e *exchange) Handle(call *extproc.ProcessingRequest) error {
	if err := e.checkMode(call); err != nil {
		return err
	}
	switch message := call.GetRequest().(type) {
	case *extproc.ProcessingRequest_RequestHeaders:
		return e.onRequestHeaders(message.RequestHeaders)
	case *extproc.ProcessingRequest_RequestBody:
		return e.onRequestBody(message.RequestBody)
	case *extproc.ProcessingRequest_RequestTrailers:
		return e.onRequestTrailers()
	case *extproc.ProcessingRequest_ResponseHeaders:
		return e.onResponseHeaders(message.ResponseHeaders)
	case *extproc.ProcessingRequest_ResponseBody:
		return e.onResponseBody(message.ResponseBody)
	case *extproc.ProcessingRequest_ResponseTrailers:
		return e.onResponseTrailers(message.ResponseTrailers)
	default:
		return status.Errorf(codes.Unimplemented, "unknown call %T", message)
	}
}
