package relay

import (
	"net/http"

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
	held, refused := s.Limits.Receive(s.Hold, r.Header.Get(teamHeader), bodyCopies, w, r)
	if refused != nil && refused.Code == holding.TooManyCode {
		s.Metrics.Full.Inc()
	}
	return held, refused
}
