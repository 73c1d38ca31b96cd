// Package routing implements the body router: Envoy's external processor that names the model of a
// request in a header, by which the gateway chooses the route.
//
// It is the first program that sees a request, before its identity is known. It therefore holds only
// bodies of limited size, number and age, and refuses others before it reads them.
package routing

import (
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"gke-inference/gateway/internal/apierror"
	"gke-inference/gateway/internal/calls"
	"gke-inference/gateway/internal/forms"
	"gke-inference/gateway/internal/holding"
	"gke-inference/gateway/internal/inference"
	"gke-inference/gateway/internal/paths"
	"gke-inference/gateway/router/internal/reading"
)

// ModelHeader names the model of a request.
const ModelHeader = "x-gateway-model-name"

const program = "router"

// Server handles the calls of the gateway.
type Server struct {
	extproc.UnimplementedExternalProcessorServer

	Hold    *holding.Hold
	Metrics *Metrics
	// Limits are those of the bodies whose model is read.
	Limits holding.Settings
	// ForwardedHops is the client's position in X-Forwarded-For, counted from the end.
	ForwardedHops int
	// Credentials are lowercase names of headers. A request with none of them is refused before its body is
	// held, as the client gate would refuse it afterwards. Without names, every request is held.
	Credentials []string
	// Gate is asked which model answers for a team whose budget may be spent; nil if no team has one.
	Gate *Gate
}

// exchange is one request.
type exchange struct {
	*Server
	stream  extproc.ExternalProcessor_ProcessServer
	headers map[string][]string
	found   findings
	reader  reading.Reader
	// boundary is that of a form, whose model is read when it is complete; empty for JSON.
	boundary string
	// call reads the model of a gRPC call; nil for other requests.
	call     *inference.Reader
	body     *holding.Body
	deadline *time.Timer
}

// Process handles the calls for one request.
func (s *Server) Process(stream extproc.ExternalProcessor_ProcessServer) error {
	e := &exchange{Server: s, stream: stream}
	defer func() { e.body.End() }()
	return calls.Process(stream, e)
}

// Answered implements calls.Exchange.
func (e *exchange) Answered(err error) (isOver bool, left error) {
	var fault *apierror.Error
	if !errors.As(err, &fault) {
		return err != nil, err
	}
	e.body.End()
	if e.stream.Context().Err() != nil {
		return true, nil // the client disconnected
	}
	e.Metrics.Refused.WithLabelValues(fault.Code).Inc()
	return true, e.stream.Send(calls.Refusal(program, fault.On(e.found.path), nil))
}

// Deadline implements calls.Exchange.
func (e *exchange) Deadline() *time.Timer { return e.deadline }

// Late implements calls.Exchange.
func (e *exchange) Late() error { return holding.Late(e.Limits.BodyTime) }

// Handle implements calls.Exchange.
func (e *exchange) Handle(call *extproc.ProcessingRequest) error {
	switch message := call.GetRequest().(type) {
	case *extproc.ProcessingRequest_RequestHeaders:
		return e.onHeaders(message.RequestHeaders)
	case *extproc.ProcessingRequest_RequestBody:
		return e.onBody(message.RequestBody)
	case *extproc.ProcessingRequest_RequestTrailers:
		switch {
		case e.call != nil: // gRPC has no trailers of requests
			if fault := e.call.End(); fault != nil {
				return fault
			}
		case e.body != nil:
			if err := e.forward(false); err != nil {
				return err
			}
		}
		return e.stream.Send(calls.RequestTrailers())
	default:
		return status.Errorf(codes.Unimplemented, "unknown call %T", message)
	}
}

func (e *exchange) onHeaders(message *extproc.HttpHeaders) error {
	e.headers = calls.HeadersOf(message.GetHeaders())
	e.found = findings{path: plainPath(calls.First(e.headers, ":path")), names: map[string]bool{}}
	if paths.IsInference(e.found.path) { // bodies are tensors, which nothing has to read
		e.found.model, _, _ = paths.Predictive(e.found.path)
		return e.stream.Send(calls.RoutedHeaders(e.mutation()))
	}
	if hasModel, _ := paths.Call(e.found.path); hasModel {
		return e.holdCall(message.GetEndOfStream())
	}
	if paths.IsCall(e.found.path) {
		return e.stream.Send(calls.RoutedHeaders(e.mutation()))
	}
	isForm := e.found.path == paths.Edits && forms.Is(e.headers["content-type"])
	isPrompt := paths.IsPrompt(e.found.path) && calls.First(e.headers, ":method") == http.MethodPost
	if message.GetEndOfStream() && isPrompt {
		return e.found.check(&e.reader)
	}
	if isForm && isPrompt {
		var fault *forms.Fault
		if e.boundary, fault = forms.Boundary(e.headers["content-type"]); fault != nil {
			return invalidForm(fault)
		}
	}
	if message.GetEndOfStream() || !isPrompt && !e.isJSON() {
		return e.stream.Send(calls.RoutedHeaders(e.mutation()))
	}
	if _, asks := e.headers["upgrade"]; asks { // its body has no end: what follows is the other protocol
		return apierror.Invalid(http.StatusBadRequest, "unsupported_header", "", "The header upgrade must not be set.")
	}
	if size, err := strconv.ParseUint(calls.First(e.headers, "content-length"), 10, 64); err == nil && size > uint64(e.Limits.MaxBodyBytes) {
		return apierror.TooLarge(e.Limits.MaxBodyBytes)
	}
	e.reader.Found = e.found.found
	return e.hold()
}

// hold admits the body of a request.
func (e *exchange) hold() error {
	if !e.hasCredential() {
		return apierror.Unauthorized()
	}
	if e.body = e.Hold.Begin(calls.ClientAddress(e.headers, e.ForwardedHops)); e.body == nil {
		return holding.TooMany(holding.ManyBodies)
	}
	e.deadline = time.NewTimer(e.Limits.BodyTime)
	return nil
}

// hasCredential reports whether a request may be valid: whether it is, only the client gate knows.
func (e *exchange) hasCredential() bool {
	for _, name := range e.Credentials {
		if len(e.headers[name]) > 0 {
			return true
		}
	}
	return len(e.Credentials) == 0
}

// holdCall holds a gRPC call until its message names the model.
func (e *exchange) holdCall(isEnd bool) error {
	e.call = &inference.Reader{}
	if isEnd {
		return e.call.End()
	}
	return e.hold()
}

// onCall reads the next piece of a gRPC call. Once it has named its model, the pieces pass.
func (e *exchange) onCall(message *extproc.HttpBody) error {
	piece, isEnd := message.GetBody(), message.GetEndOfStream()
	if fault := e.call.Write(piece); fault != nil {
		return fault
	}
	if isEnd {
		if fault := e.call.End(); fault != nil {
			return fault
		}
	}
	if e.body == nil {
		return calls.EachPart(piece, isEnd, e.send)
	}
	if !e.body.Add(piece) {
		return holding.TooMany(holding.ManyBytes)
	}
	var isKnown bool
	if e.found.model, isKnown = e.call.Name(); !isKnown {
		return nil
	}
	e.deadline.Stop()
	body := e.body
	e.body = nil
	defer body.End()
	if err := e.stream.Send(calls.RoutedHeaders(e.mutation())); err != nil {
		return err
	}
	return body.Pieces(func(held []byte, isLast bool) error {
		return calls.EachPart(held, isLast && isEnd, e.send)
	})
}

func (e *exchange) onBody(message *extproc.HttpBody) error {
	if e.call != nil {
		return e.onCall(message)
	}
	if e.body == nil { // not read: it passes piece by piece
		return calls.EachPart(message.GetBody(), message.GetEndOfStream(), e.send)
	}
	piece := message.GetBody()
	if e.body.Size()+len(piece) > e.Limits.MaxBodyBytes {
		return apierror.TooLarge(e.Limits.MaxBodyBytes)
	}
	if e.boundary == "" {
		e.reader.Write(piece)
		if e.reader.IsBroken() || e.found.fault != nil {
			return e.found.check(&e.reader)
		}
	}
	if !e.body.Add(piece) {
		return holding.TooMany(holding.ManyBytes)
	}
	if message.GetEndOfStream() {
		return e.forward(true)
	}
	return nil
}

// forward names the model of a complete body and lets the body pass. isBodyEnd is whether the body ends
// the request; otherwise trailers follow.
func (e *exchange) forward(isBodyEnd bool) error {
	if fault := e.readForm(); fault != nil {
		return fault
	}
	if fault := e.found.check(&e.reader); fault != nil {
		return fault
	}
	e.deadline.Stop()
	body := e.body
	e.body = nil
	defer body.End()
	e.askGate()
	mutation := e.mutation()
	length := map[string]string{"content-length": strconv.Itoa(body.Size())} // Envoy removes it from bodies that are processed
	mutation.SetHeaders = append(mutation.SetHeaders, calls.Options(length)...)
	if err := e.stream.Send(calls.RoutedHeaders(mutation)); err != nil {
		return err
	}
	return body.Pieces(func(piece []byte, isLast bool) error {
		return calls.EachPart(piece, isLast && isBodyEnd, e.send)
	})
}

// askGate replaces the model by the one that answers for it. If the gate does not reply, the request keeps its model,
// and the gate refuses it for a moment if the team's budget is spent.
func (e *exchange) askGate() {
	if !e.Gate.asks(e.found.path, e.found.model) {
		return
	}
	model, err := e.Gate.modelFor(e.stream.Context(), e.headers, e.found.model)
	if err != nil {
		e.Metrics.Unanswered.Inc()
		slog.Warn("the client gate was not asked", "error", err.Error())
		return
	}
	e.found.model = model
}

// readForm reads the texts of a form as the fields of JSON, so that the rules of both are the same.
func (e *exchange) readForm() *apierror.Error {
	if e.boundary == "" {
		return nil
	}
	if !e.body.Copy(1) { // of its texts
		return holding.TooMany(holding.ManyBytes)
	}
	form, fault := forms.Read(e.body.Whole(), e.boundary)
	if fault == nil {
		fault = form.Check()
	}
	if fault != nil {
		return invalidForm(fault)
	}
	e.reader.Write(form.JSON())
	return nil
}

func invalidForm(fault *forms.Fault) *apierror.Error {
	return apierror.Invalid(http.StatusBadRequest, "invalid_form", fault.Field, "%s", fault.Error())
}

func (e *exchange) send(part *extproc.BodyResponse) error {
	return e.stream.Send(&extproc.ProcessingResponse{
		Response: &extproc.ProcessingResponse_RequestBody{RequestBody: part},
	})
}

// mutation sets the model's header, and the path by which pickers read the body, without the client's query. Only
// this program may set the header.
func (e *exchange) mutation() *extproc.HeaderMutation {
	set := map[string]string{}
	if picked := paths.Picked(e.found.path); paths.IsPrompt(e.found.path) && calls.First(e.headers, ":path") != picked {
		set[":path"] = picked
	}
	made := &extproc.HeaderMutation{}
	if e.found.model != "" {
		set[ModelHeader] = e.found.model
	} else if _, has := e.headers[ModelHeader]; has {
		made.RemoveHeaders = []string{ModelHeader}
	}
	made.SetHeaders = calls.Options(set)
	return made
}

// isJSON returns whether a body on another path has to be read for its model.
func (e *exchange) isJSON() bool {
	kind, _, _ := strings.Cut(calls.First(e.headers, "content-type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "application/json")
}
