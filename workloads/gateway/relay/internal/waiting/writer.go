package waiting

import (
	"bytes"
	"encoding/json"
	"net/http"

	"gke-inference/gateway/internal/paths"
)

// largestFault is how much of an error's body is kept for the event that replaces it.
const largestFault = 64 << 10

// writer writes a response that may have started with comments. An error after that becomes an event.
type writer struct {
	http.ResponseWriter
	path      string
	isStarted bool
	// isFault is set if the status after comments is not 200; fault is then the body.
	isFault bool
	fault   bytes.Buffer
	headers http.Header
}

// comment sends a comment of the format of event streams (html.spec.whatwg.org, server-sent events), which
// clients ignore.
func (w *writer) comment(text string) error {
	if !w.isStarted {
		header := w.ResponseWriter.Header()
		header.Set("Content-Type", "text/event-stream")
		header.Set("Cache-Control", "no-cache")
		w.ResponseWriter.WriteHeader(http.StatusOK)
		w.isStarted = true
		w.headers = http.Header{}
	}
	if _, err := w.ResponseWriter.Write([]byte(": " + text + "\n\n")); err != nil {
		return err
	}
	return w.FlushError()
}

// Header returns the headers of the response, or others that nobody reads once it has started.
func (w *writer) Header() http.Header {
	if w.isStarted {
		return w.headers
	}
	return w.ResponseWriter.Header()
}

// WriteHeader sends a status, unless the response has started.
func (w *writer) WriteHeader(status int) {
	if !w.isStarted {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.isFault = status != http.StatusOK
}

// Write sends a part of the body, or keeps that of an error.
func (w *writer) Write(part []byte) (int, error) {
	if !w.isFault {
		return w.ResponseWriter.Write(part)
	}
	w.fault.Write(part[:min(len(part), max(0, largestFault-w.fault.Len()))])
	return len(part), nil
}

// FlushError sends what was written.
func (w *writer) FlushError() error { return http.NewResponseController(w.ResponseWriter).Flush() }

// Flush sends what was written.
func (w *writer) Flush() { _ = w.FlushError() } // a client that disconnected ends its request

// Unwrap returns the writer that has the connection.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// end sends the error of a response that has started as its last events.
func (w *writer) end() {
	if !w.isFault {
		return
	}
	body := w.fault.Bytes()
	var line bytes.Buffer
	if json.Compact(&line, body) != nil {
		line.Reset()
		line.WriteString(`{"error":{"message":"The model's replica failed.","type":"server_error","param":null,"code":null}}`)
	}
	event := "data: "
	if w.path == paths.Responses || paths.IsMessages(w.path) {
		event = "event: error\ndata: "
	}
	last := "\n\ndata: [DONE]\n\n"
	if event != "data: " {
		last = "\n\n"
	}
	// a client that disconnected reads no error
	_, _ = w.ResponseWriter.Write([]byte(event + line.String() + last))
	w.Flush()
}
