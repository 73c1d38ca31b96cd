package config

import (
	"fmt"
	"net/url"
	"slices"
	"time"
)

const (
	defaultThreshold = 0.95
	defaultTTL       = 24 * time.Hour
	defaultTimeout   = 200 * time.Millisecond
	longestTTL       = 30 * 24 * 60 * 60 // seconds
	longestTimeout   = 800               // milliseconds: the load balancer waits one second for each response of the callout
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
	address, err := url.Parse(made.Embeddings.URL)
	if err != nil || address.Host == "" || (address.Scheme != "http" && address.Scheme != "https") {
		return fmt.Errorf("cache.embeddings.url: must be an http or https address, got %q", made.Embeddings.URL)
	}
	switch {
	case made.Embeddings.Model == "":
		return fmt.Errorf("cache.embeddings.model: is required")
	case len(made.Models) == 0 || slices.Contains(made.Models, ""):
		return fmt.Errorf("cache.models: must list models, got %q", made.Models)
	case made.Threshold <= 0 || made.Threshold > 1:
		return fmt.Errorf("cache.threshold: must be more than 0 and at most 1, got %g", made.Threshold)
	case made.TTLSeconds < 1 || made.TTLSeconds > longestTTL:
		return fmt.Errorf("cache.ttl_seconds: must be 1 to %d, got %d", longestTTL, made.TTLSeconds)
	case made.TimeoutMsec < 1 || made.TimeoutMsec > longestTimeout:
		return fmt.Errorf("cache.timeout_ms: must be 1 to %d, got %d", longestTimeout, made.TimeoutMsec)
	}
	return made.Store.check("cache.store")
}
