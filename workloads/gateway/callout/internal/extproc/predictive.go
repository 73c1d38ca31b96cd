package extproc

import (
	"net/http"
	"strconv"
	"time"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"

	"gke-inference/gateway/callout/internal/limits"
	"gke-inference/gateway/callout/internal/openai"
	"gke-inference/gateway/internal/calls"
	"gke-inference/gateway/internal/holding"
	"gke-inference/gateway/internal/inference"
	"gke-inference/gateway/internal/paths"
)

// predictiveKind returns the kind of a request of the Open Inference Protocol.
func predictiveKind(method string, infers bool) (requestKind, *openai.Error) {
	if infers != (method == http.MethodPost) || !infers && method != http.MethodGet {
		return predictive, openai.MethodNotAllowed(method)
	}
	return predictive, nil
}

// callKind returns the kind of a gRPC call of the Open Inference Protocol.
func callKind(method, path string) (requestKind, *openai.Error) {
	if _, isOne := paths.Call(path); !isOne || method != http.MethodPost {
		return predictive, openai.UnknownURL(method, path)
	}
	return predictive, nil
}

// begin handles the headers of a request to a predictive model.
func (e *exchange) begin(isEnd bool, now time.Time) error {
	if model, _, isOne := paths.Predictive(e.path); isOne {
		return e.predict(model, now)
	}
	if hasModel, _ := paths.Call(e.path); !hasModel {
		return e.passOn()
	}
	e.call = &inference.Reader{}
	if isEnd {
		return e.call.End()
	}
	if e.held = e.Hold.Begin(e.client()); e.held == nil {
		return holding.TooMany(holding.ManyBodies)
	}
	e.deadline = time.NewTimer(e.Limits.BodyTime)
	return nil
}

// onCall reads the next piece of a gRPC call, which is held until its message names the model.
func (e *exchange) onCall(message *extproc.HttpBody) error {
	isEnd := message.GetEndOfStream()
	if fault := e.call.Write(message.GetBody()); fault != nil {
		return fault
	}
	if isEnd {
		if fault := e.call.End(); fault != nil {
			return fault
		}
	}
	if e.decided {
		return e.passPiece(message)
	}
	if !e.held.Add(message.GetBody()) {
		return holding.TooMany(holding.ManyBytes)
	}
	model, isKnown := e.call.Name()
	if !isKnown {
		return nil
	}
	e.deadline.Stop()
	for _, routed := range e.headers[modelHeader] {
		if routed != model {
			return openai.ModelMismatch()
		}
	}
	if err := e.predict(model, time.Now()); err != nil {
		return err
	}
	defer e.held.End()
	return e.held.Pieces(func(piece []byte, isLast bool) error {
		return calls.EachPart(piece, isLast && isEnd, e.sendRequest)
	})
}

// callStatus makes the status of a gRPC call the one that usage records have.
func (e *exchange) callStatus(trailers map[string][]string) {
	if text := calls.First(trailers, "grpc-status"); text != "" && paths.IsCall(e.path) {
		code, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			code = uint64(codes.Unknown)
		}
		e.status = httpStatus(codes.Code(code))
	}
}

// httpStatus returns the HTTP status of a gRPC status (googleapis google/rpc/code.proto, "HTTP Mapping").
func httpStatus(code codes.Code) int {
	switch code {
	case codes.OK:
		return http.StatusOK
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange:
		return http.StatusBadRequest
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.NotFound:
		return http.StatusNotFound
	case codes.Aborted, codes.AlreadyExists:
		return http.StatusConflict
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Canceled:
		return clientGone
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	default:
		return http.StatusInternalServerError
	}
}

// predict admits a request to a predictive model as one request of the team. It has no tokens, so limits and
// prices of tokens do not apply to it, and its tensors pass piece by piece.
func (e *exchange) predict(model string, now time.Time) error {
	if !e.config.Permits(e.team, model) {
		return openai.ModelNotFound(model)
	}
	e.request.Model = model
	budget := limits.Budget{RequestsPerMinute: e.team.RequestsPerMinute}
	// nothing to settle: what it costs is known
	e.decision, _ = e.Limiter.Admit(e.stream.Context(), e.caller.Team, budget, limits.Cost{}, now)
	if !e.decision.Allowed {
		return openai.RateLimited("requests", budget.RequestsPerMinute, e.decision.Retry)
	}
	e.decided, e.sent = true, time.Now()
	mutation := upstreamMutation(e.headers, e.config, e.caller.Team, "")
	e.takeTurn(mutation)
	return e.stream.Send(calls.RequestHeaders(mutation))
}
