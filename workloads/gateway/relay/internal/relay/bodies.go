package relay

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"gke-inference/gateway/internal/apierror"
	"gke-inference/gateway/internal/holding"
	"gke-inference/gateway/relay/internal/openai"
)

// bodyCopies of a body exist until a target answers: its fields, and the target's body twice while its buffer
// grows.
const bodyCopies = 3

// teamHeader is the team of a request, which a client gate sets.
const teamHeader = "x-gateway-inference-fairness-id"

// hold reads a body, within the limits of its team. Without a client gate, all clients are one.
func (s *Server) hold(w http.ResponseWriter, r *http.Request) (*holding.Body, *openai.Error) {
	if r.ContentLength > int64(s.Limits.MaxBodyBytes) {
		return nil, apierror.TooLarge(s.Limits.MaxBodyBytes)
	}
	held := s.Hold.Begin(r.Header.Get(teamHeader))
	if held == nil {
		return nil, s.tooMany(holding.ManyBodies)
	}
	control := http.NewResponseController(w)
	// a writer without deadlines is one without a network
	_ = control.SetReadDeadline(time.Now().Add(s.Limits.BodyTime))
	refused := s.fill(held, r.Body)
	if refused == nil && !held.Copy(bodyCopies) {
		refused = s.tooMany(holding.ManyBytes)
	}
	if refused != nil {
		held.End()
		w.Header().Set("Connection", "close") // the rest of the body is not read
		return nil, refused
	}
	_ = control.SetReadDeadline(time.Time{})
	return held, nil
}

func (s *Server) fill(held *holding.Body, from io.Reader) *openai.Error {
	piece := make([]byte, holding.BlockBytes)
	for {
		n, err := from.Read(piece)
		if held.Size()+n > s.Limits.MaxBodyBytes {
			return apierror.TooLarge(s.Limits.MaxBodyBytes)
		}
		if !held.Add(piece[:n]) {
			return s.tooMany(holding.ManyBytes)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return holding.Late(s.Limits.BodyTime)
		case err != nil:
			return openai.Invalid(http.StatusBadRequest, "invalid_body", "", "The body of the request is incomplete.")
		}
	}
}

func (s *Server) tooMany(message string) *openai.Error {
	s.Metrics.Full.Inc()
	return holding.TooMany(message)
}
