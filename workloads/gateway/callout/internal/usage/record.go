// Package usage reports what requests used, as JSON lines and metrics. Neither contains prompts, bodies
// or keys.
package usage

import (
	"encoding/json"
	"io"
	"log/slog"
	"sync"
	"time"
)

// Record is one finished request of a known team.
type Record struct {
	Time      time.Time `json:"time"`
	RequestID string    `json:"request_id"`
	Team      string    `json:"team"`
	KeyID     string    `json:"key_id"`
	Subject   string    `json:"subject,omitempty"`
	Model     string    `json:"model"`
	// InsteadOf is the model that the request named, if Model answered because the team's budget is spent.
	InsteadOf        string `json:"instead_of,omitempty"`
	Region           string `json:"region"`
	Status           int    `json:"status"`
	Stream           bool   `json:"stream"`
	PromptTokens     int64  `json:"prompt_tokens"`
	CachedTokens     int64  `json:"cached_tokens"`
	CompletionTokens int64  `json:"completion_tokens"`
	// Estimated is whether the tokens are estimates, because the engine did not report them.
	Estimated bool `json:"estimated"`
	// Cache is the result of the cache: hit, miss, bypass, unfit or failed; empty if it was not
	// queried. A hit uses no tokens; SavedUSD is what its response cost when it was generated.
	Cache      string  `json:"cache,omitempty"`
	SavedUSD   float64 `json:"saved_usd,omitempty"`
	USD        float64 `json:"usd"`
	DurationMS int64   `json:"duration_ms"`
}

// Writer writes records, one line each.
type Writer struct {
	mu  sync.Mutex
	out io.Writer
}

// NewWriter returns a writer of records.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Write writes one record.
func (w *Writer) Write(record Record) {
	line, err := json.Marshal(record)
	if err != nil {
		slog.Error("usage not written", "error", err.Error())
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.out.Write(append(line, '\n')); err != nil {
		slog.Error("usage not written", "error", err.Error())
	}
}
