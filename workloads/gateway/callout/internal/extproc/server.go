// Package extproc implements the callout: Envoy's external processor for an inference gateway.
//
// The gateway calls it with full-duplex streams. The body of a request is held until its identity,
// model and limits are checked, then passes unchanged. The body of a response passes at once, piece by
// piece, while the engine's usage is read from it.
package extproc

import (
	"errors"
	"io"
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
	"gke-inference/gateway/callout/internal/usage"
	"gke-inference/gateway/internal/calls"
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
	// MaxBodyBytes is the maximum size of a request body.
	MaxBodyBytes int
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
	for {
		call, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) || status.Code(err) == codes.Canceled {
				return nil
			}
			return err
		}
		if err := s.checkMode(call); err != nil {
			return err
		}
		err = e.handle(call)
		var fault *openai.Error
		if errors.As(err, &fault) && stream.Context().Err() != nil {
			return stream.Context().Err() // not an error: the client disconnected
		}
		if errors.As(err, &fault) {
			return e.refuse(fault)
		}
		if errors.Is(err, errAnswered) {
			return nil
		}
		if err != nil {
			return err
		}
	}
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

func (e *exchange) handle(call *extproc.ProcessingRequest) error {
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
		return e.onResponseTrailers()
	default:
		return status.Errorf(codes.Unimplemented, "unknown call %T", message)
	}
}
