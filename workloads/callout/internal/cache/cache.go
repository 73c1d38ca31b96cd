// Package cache answers a question with the answer to one of the same meaning.
//
// A question is the last message of a chat. It is compared by the distance of embeddings, which a model
// of the stack makes; everything else in the request must be equal, and so must the team, so that
// nothing of one team reaches another. The vectors are in an index of Valkey (FT.SEARCH).
//
// A cache that fails is one that does not know the answer: no request ends by it.
package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"gke-inference/callout/internal/config"
	"gke-inference/callout/internal/openai"
)

// storing bounds the answers that are being stored: one that comes while all are busy is not stored.
const storing = 32

// Outcome is what a look-up came to.
type Outcome string

// Outcomes of a look-up.
const (
	Hit    Outcome = "hit"
	Miss   Outcome = "miss"
	Bypass Outcome = "bypass"
	Unfit  Outcome = "unfit"
	Failed Outcome = "failed"
)

// Entry is an answer that is known.
type Entry struct {
	Answer     string
	Usage      openai.Usage
	Written    time.Time
	Similarity float64
}

// Place is where the answer to a question goes, once there is one.
type Place struct {
	scope    string
	question string
	vector   []float32
	// using is what the question was looked up with: an answer is kept where it was looked for.
	using *using
}

// Cache is the cache of one configuration after another.
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

// New returns a cache that is not configured, and so knows nothing.
func New() *Cache { return &Cache{slots: make(chan struct{}, storing)} }

// Use takes the settings of a new version of the file.
func (c *Cache) Use(settings *config.Cache) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.current.Load()
	if settings == nil {
		c.current.Store(nil)
	} else {
		next := &using{settings: *settings}
		if old != nil && old.settings.Embeddings == settings.Embeddings {
			next.embedder = old.embedder // and its connections
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

// Find looks for an answer to a team's question. Place is where a new answer goes, and nil where none is kept.
// With isRefresh the answer that is known does not do, and the new one takes its place.
func (c *Cache) Find(ctx context.Context, team string, question openai.Question, isRefresh bool) (Entry, *Place, Outcome) {
	using := c.current.Load()
	if using == nil {
		return Entry{}, nil, Failed
	}
	limited, cancel := context.WithTimeout(ctx, using.settings.Timeout())
	defer cancel()
	vector, err := using.embedder.embed(limited, question.Text)
	if err != nil {
		c.report(ctx, "embeddings of questions cannot be had", err)
		return Entry{}, nil, Failed
	}
	place := &Place{
		scope: digest(team, using.settings.Epoch, string(question.Context)), question: digest(question.Text),
		vector: vector, using: using,
	}
	entry, found, err := using.store.nearest(limited, using.embedder.model, place)
	if err != nil {
		c.report(ctx, "answers cannot be looked up", err)
		return Entry{}, nil, Failed
	}
	if c.failing.Swap(false) {
		slog.Info("the cache answers again")
	}
	switch {
	case isRefresh:
		return Entry{}, place, Bypass
	case !found || entry.Similarity < using.settings.Threshold:
		return Entry{}, place, Miss
	}
	return entry, nil, Hit
}

// Keep stores an answer, without making anybody wait for it.
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
			c.report(ctx, "an answer was not stored", err)
		}
	}()
}

// report logs the first of a row of failures; a client that hangs up is none.
func (c *Cache) report(asked context.Context, what string, err error) {
	if asked.Err() == nil && !c.failing.Swap(true) {
		slog.Error(what, "error", err.Error())
	}
}

// digest returns the SHA-256 of texts as hexadecimal digits, which need no escape in a query.
func digest(texts ...string) string {
	sum := sha256.New()
	for _, text := range texts {
		sum.Write([]byte(text))
		sum.Write([]byte{0}) // neither names of teams nor JSON have this
	}
	return hex.EncodeToString(sum.Sum(nil))
}
