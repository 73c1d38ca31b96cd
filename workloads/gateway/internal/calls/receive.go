package calls

import (
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

// WindowBytes limits what the transport holds of one body before the program reads it.
const WindowBytes = 64 << 10

// Received is a call of the gateway, or the error after the last one.
type Received struct {
	Call *extproc.ProcessingRequest
	Err  error
}

// Receive returns the calls for one request, so that a program can wait for something else as well. Nothing
// follows an error, or the end of the stream's context.
func Receive(stream extproc.ExternalProcessor_ProcessServer) <-chan Received {
	received := make(chan Received)
	go func() {
		for {
			call, err := stream.Recv()
			select {
			case received <- Received{call, err}:
			case <-stream.Context().Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return received
}
