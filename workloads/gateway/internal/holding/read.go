package holding

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"gke-inference/gateway/internal/apierror"
)

// Receive reads the body of a request from a client, within the limits. copies of it exist at a time until
// it ends. A refused body is not read to its end, so its connection is closed.
func (s *Settings) Receive(
	hold *Hold, client string, copies int, w http.ResponseWriter, r *http.Request,
) (*Body, *apierror.Error) {
	if r.ContentLength > int64(s.MaxBodyBytes) {
		return nil, apierror.TooLarge(s.MaxBodyBytes)
	}
	held := hold.Begin(client)
	if held == nil {
		return nil, TooMany(ManyBodies)
	}
	control := http.NewResponseController(w)
	// a writer without deadlines is one without a network
	_ = control.SetReadDeadline(time.Now().Add(s.BodyTime))
	refused := s.fill(held, r.Body)
	if refused == nil && !held.Copy(copies) {
		refused = TooMany(ManyBytes)
	}
	if refused != nil {
		held.End()
		w.Header().Set("Connection", "close") // the rest of the body is not read
		return nil, refused
	}
	_ = control.SetReadDeadline(time.Time{})
	return held, nil
}

func (s *Settings) fill(held *Body, from io.Reader) *apierror.Error {
	piece := make([]byte, BlockBytes)
	for {
		n, err := from.Read(piece)
		if held.Size()+n > s.MaxBodyBytes {
			return apierror.TooLarge(s.MaxBodyBytes)
		}
		if !held.Add(piece[:n]) {
			return TooMany(ManyBytes)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return Late(s.BodyTime)
		case err != nil:
			return apierror.Invalid(http.StatusBadRequest, "invalid_body", "", "The body of the request is incomplete.")
		}
	}
}
