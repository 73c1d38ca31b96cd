package calls

import (
	"errors"
	"io"
	"time"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// WindowBytes limits what the transport holds of one body before the program reads it.
const WindowBytes = 64 << 10

// received is a call of the gateway, or the error after the last one.
type received struct {
	call *extproc.ProcessingRequest
	err  error
}

// Exchange handles the calls for one request.
type Exchange interface {
	// Handle handles a call.
	Handle(*extproc.ProcessingRequest) error
	// Deadline ends the wait for the body; nil while there is none.
	Deadline() *time.Timer
	// Late is the error when the body is not complete at the deadline.
	Late() error
	// Answered sends a fault to the client. isOver is whether the calls for the request end.
	Answered(err error) (isOver bool, left error)
}

// Process handles the calls for one request until the last one, or an error.
func Process(stream extproc.ExternalProcessor_ProcessServer, e Exchange) error {
	received := receive(stream)
	for {
		var expired <-chan time.Time
		if deadline := e.Deadline(); deadline != nil {
			expired = deadline.C
		}
		select {
		case <-stream.Context().Done(): // the receiver may have ended without a word
			return nil
		case one := <-received:
			if errors.Is(one.err, io.EOF) || status.Code(one.err) == codes.Canceled {
				return nil
			}
			if one.err != nil {
				return one.err
			}
			if isOver, err := e.Answered(e.Handle(one.call)); isOver {
				return err
			}
		case <-expired:
			_, err := e.Answered(e.Late())
			return err
		}
	}
}

// receive returns the calls for one request, so that a program can wait for something else as well. Nothing
// follows an error, or the end of the stream's context.
func receive(stream extproc.ExternalProcessor_ProcessServer) <-chan received {
	calls := make(chan received)
	go func() {
		for {
			call, err := stream.Recv()
			select {
			case calls <- received{call, err}:
			case <-stream.Context().Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return calls
}
