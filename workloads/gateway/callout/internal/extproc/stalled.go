package extproc

import (
	"fmt"
	"mime"
	"net/http"
	"time"

	"gke-inference/gateway/callout/internal/openai"
	"gke-inference/gateway/internal/calls"
)

// watch notes a response that is a stream. Its time is limited once its answer has begun, since the headers of an
// engine's response, comments, and events such as `response.created` come before the prompt is computed.
func (e *exchange) watch(headers map[string][]string) {
	kind, _, err := mime.ParseMediaType(calls.First(headers, "content-type"))
	if err != nil || kind != eventStream || e.kind != prompt || e.status != http.StatusOK || e.answer == nil {
		return
	}
	e.isStream = true
}

// awaitPiece limits the time until the next piece of a stream that has begun. What a guard or a slow client has taken
// of it does not count.
func (e *exchange) awaitPiece() {
	switch {
	case e.isStreaming:
		e.deadline.Reset(e.config.StreamIdle)
	case e.isStream && e.answer.HasBegun():
		e.isStreaming = true
		e.Metrics.Stalled.WithLabelValues(e.labels()) // an increase is not seen of a series that begins with it
		e.deadline = time.NewTimer(e.config.StreamIdle)
	}
}

// stall ends a stream whose engine sends nothing any more, with an error in the form of its API. The end of the
// response makes the gateway close the engine's stream, so that the engine stops as well.
func (e *exchange) stall() error {
	message := fmt.Sprintf("The model sent nothing for %g seconds. Retry the request.", e.config.StreamIdle.Seconds())
	last := []byte("\n\n") // ends what is left of an event
	if e.guarded.stream != nil {
		last = append(last, e.guarded.stream.Fail(message)...)
	} else {
		last = append(last, openai.StreamFailure(e.path, message)...)
	}
	e.isStalled, e.reuse.answer = true, nil
	if err := e.sendResponse(last, true); err != nil {
		return err
	}
	e.finish(false)
	return errAnswered
}
