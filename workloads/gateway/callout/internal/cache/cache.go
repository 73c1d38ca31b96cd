// Package cache answers a question with the response to an earlier question of the same meaning.
//
// The question is the last message of a chat. Questions are compared by the distance of their
// embeddings, which a model of the stack generates. Everything else in the request must be equal, and
// so must the team: responses never cross from one team to another. The vectors are in a Valkey index
// (FT.SEARCH).
//
// If the cache fails, it counts as a miss: no request fails because of it.
package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"gke-inference/gateway/callout/internal/config"
	"gke-inference/gateway/callout/internal/openai"
)

// storing limits concurrent writes. A response that arrives while all of them are in use is not stored.
const storing = 32

// Outcome is the result of a lookup.
type Outcome string

// Outcomes of a lookup.
const (
	Hit    Outcome = "hit"
	Miss   Outcome = "miss"
	Bypass Outcome = "bypass"
	Unfit  Outcome = "unfit"
	Failed Outcome = "failed"
)

// Entry is a cached response.
type Entry struct {
	Answer     string
	Usage      openai.Usage
	Written    time.Time
	Similarity float64
}

// Place is where the response to a question will be stored.
type Place struct {
	scope    string
	question string
	vector   []float32
	// using is the state that the lookup used, so that the response is stored in the same place.
	using *using
}

// Cache is the semantic cache. It follows changes of the configuration.
type Cache struct {
	mu      sync.Mutex
	current atomic.Pointer[using]
	slots   chan struct{}
	failing atomic.Bool
}

type using struct {
	settings config.Cache
	embedder *embedder
	store    *store
}

// New returns a cache without a configuration: every lookup is a miss.
func New() *Cache { return &Cache{slots: make(chan struct{}, storing)} }

// Use applies the settings of a new version of the file.
func (c *Cache) Use(settings *config.Cache) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.current.Load()
	if settings == nil {
		c.current.Store(nil)
	} else {
		next := &using{settings: *settings}
		if old != nil && old.settings.Embeddings == settings.Embeddings {
			next.embedder = old.embedder // keeps its connections
		} else {
			next.embedder = newEmbedder(settings.Embeddings)
		}
		if old != nil && old.settings.Store == settings.Store {
			next.store = old.store
		} else {
			opened, err := open(settings.Store)
			if err != nil {
				return err
			}
			next.store = opened
		}
		c.current.Store(next)
	}
	now := c.current.Load()
	if old != nil && (now == nil || now.store != old.store) {
		old.store.close()
	}
	if old != nil && (now == nil || now.embedder != old.embedder) {
		old.embedder.client.CloseIdleConnections()
	}
	return nil
}

// Find looks up the response to a team's question. Place is where to store a new response, or nil if it
// must not be stored. With isRefresh, an existing entry is ignored, and the new response replaces it.
func (c *Cache) Find(ctx context.Context, team string, question openai.Question, isRefresh bool) (Entry, *Place, Outcome) {
	using := c.current.Load()
	if using == nil {
		return Entry{}, nil, Failed
	}
	limited, cancel := context.WithTimeout(ctx, using.settings.Timeout())
	defer cancel()
	vector, err := using.embedder.embed(limited, question.Text)
	if err != nil {
		c.report(ctx, "embeddings of questions not available", err)
		return Entry{}, nil, Failed
	}
	place := &Place{
		scope: digest(team, using.settings.Epoch, string(question.Context)), question: digest(question.Text),
		vector: vector, using: using,
	}
	entry, found, err := using.store.nearest(limited, using.embedder.model, place)
	if err != nil {
		c.report(ctx, "cache lookup failed", err)
		return Entry{}, nil, Failed
	}
	if c.failing.Swap(false) {
		slog.Info("cache available again")
	}
	switch {
	case isRefresh:
		return Entry{}, place, Bypass
	case !found || entry.Similarity < using.settings.Threshold:
		return Entry{}, place, Miss
	}
	return entry, nil, Hit
}

// Keep stores a response in the background.
func (c *Cache) Keep(place *Place, entry Entry) {
	select {
	case c.slots <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-c.slots }()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		using := place.using
		if err := using.store.put(ctx, using.embedder.model, place, entry, using.settings.TTL()); err != nil {
			c.report(ctx, "response not stored", err)
		}
	}()
}

// report logs the first of several consecutive failures. A canceled request is not a failure.
func (c *Cache) report(asked context.Context, what string, err error) {
	if asked.Err() == nil && !c.failing.Swap(true) {
		slog.Error(what, "error", err.Error())
	}
}

// digest returns the SHA-256 of texts in hexadecimal, which needs no escaping in a query.
func digest(texts ...string) string {
	sum := sha256.New()
	for _, text := range texts {
		sum.Write([]byte(text))
		sum.Write([]byte{0}) // in neither team names nor JSON
	}
	return hex.EncodeToString(sum.Sum(nil))
}
