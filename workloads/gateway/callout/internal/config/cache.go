package config

import (
	"fmt"
	"slices"
	"time"

	"gke-inference/gateway/internal/settings"
)

const (
	defaultThreshold = 0.95
	defaultTTL       = 24 * time.Hour
	defaultTimeout   = 200 * time.Millisecond
)

// Cache has the settings of the semantic cache: the embedding model, the store and the similarity
// threshold.
type Cache struct {
	Embeddings Embeddings `json:"embeddings"`
	// Epoch changes when the checks of prompts and responses change, so that responses from before the
	// change are not reused.
	Epoch string `json:"epoch"`
	// Models lists the models whose responses are cached.
	Models []string `json:"models"`
	Store  Store    `json:"store"`
	// Threshold is the minimum similarity (cosine of the embeddings) for a cached response.
	Threshold   float64 `json:"threshold"`
	TTLSeconds  int64   `json:"ttl_seconds"`
	TimeoutMsec int64   `json:"timeout_ms"`
}

// Embeddings is the embedding model, behind the OpenAI API.
type Embeddings struct {
	URL   string `json:"url"`
	Model string `json:"model"`
}

// TTL returns how long a response is cached.
func (c Cache) TTL() time.Duration { return time.Duration(c.TTLSeconds) * time.Second }

// Timeout returns the maximum duration of a lookup. A request does not wait longer for the cache.
func (c Cache) Timeout() time.Duration { return time.Duration(c.TimeoutMsec) * time.Millisecond }

// Caches reports whether a team's questions to a model may be answered from the cache.
func (c *Config) Caches(team *Team, model string) bool {
	return c.Cache != nil && team.Cache && slices.Contains(c.Cache.Models, model)
}

func (c *Config) checkCache() error {
	if c.Cache == nil {
		for _, name := range sorted(c.Teams) {
			if c.Teams[name].Cache {
				return fmt.Errorf("teams.%s.cache: needs cache, got none", name)
			}
		}
		return nil
	}
	made := c.Cache
	if made.Threshold == 0 {
		made.Threshold = defaultThreshold
	}
	if made.TTLSeconds == 0 {
		made.TTLSeconds = int64(defaultTTL / time.Second)
	}
	if made.TimeoutMsec == 0 {
		made.TimeoutMsec = defaultTimeout.Milliseconds()
	}
	if _, err := settings.WebAddress("cache.embeddings.url", made.Embeddings.URL); err != nil {
		return err
	}
	switch {
	case made.Embeddings.Model == "":
		return fmt.Errorf("cache.embeddings.model: is required")
	case len(made.Models) == 0 || slices.Contains(made.Models, ""):
		return fmt.Errorf("cache.models: must list models, got %q", made.Models)
	}
	// the load balancer waits one second for each response of the callout, so a lookup ends before
	if err := inRange.CheckAll(map[string]float64{
		"cache.threshold": made.Threshold, "cache.ttl_seconds": float64(made.TTLSeconds),
		"cache.timeout_ms": float64(made.TimeoutMsec),
	}); err != nil {
		return err
	}
	return made.Store.check("cache.store")
}
