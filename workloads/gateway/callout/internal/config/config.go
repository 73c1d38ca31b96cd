// Package config reads the file of teams, limits and prices, and watches it for changes.
package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"gke-inference/gateway/internal/settings"
	"gke-inference/gateway/internal/tokens"
)

// defaultIdleSeconds is shorter than Envoy's default of 5 minutes for a stream without a byte
// (HttpConnectionManager.stream_idle_timeout), so that clients get an error before a gateway cuts the connection.
const defaultIdleSeconds = 240

// Anonymous is the team of requests without a credential.
const Anonymous = "anonymous"

// Config is one validated version of the file.
type Config struct {
	Region    string
	Replicas  int64
	Anonymous bool
	// Batches is whether the gateway also serves the Files and Batches APIs.
	Batches bool
	Teams   map[string]*Team
	Prices  map[string]Price
	Pools   map[string]string
	Guards  map[string]Guard
	Models  map[string]Model
	// StreamIdle is the longest time without a byte from the engine in a stream that has begun.
	StreamIdle time.Duration
	// DefaultContext is the assumed context of models that the file does not describe.
	DefaultContext int64
	Keys           Keys
	JWT            []JWT
	Store          *Store
	Cache          *Cache
	// Turns is nil if the requests of a team wait in the order of their arrival.
	Turns *Turns
	// Certificates is nil if clients have none.
	Certificates *Certificates
}

// Team has the models and limits of a team. A limit of 0 means no limit.
type Team struct {
	Models            []string `json:"models"`
	Objective         string   `json:"objective"`
	Guards            []string `json:"guards"`
	RequestsPerMinute int64    `json:"requests_per_minute"`
	TokensPerMinute   int64    `json:"tokens_per_minute"`
	TokensPerMonth    int64    `json:"tokens_per_month"`
	MonthlyUSD        float64  `json:"monthly_usd"`
	// ActsForTeams is whether the team's keys may name another team for their requests.
	ActsForTeams bool `json:"acts_for_teams"`
	// Cache is whether the team's questions may be answered from its cached responses.
	Cache bool `json:"cache"`
	// WhenSpent is the model that answers once MonthlyUSD is spent; nil refuses the requests.
	WhenSpent *WhenSpent `json:"when_spent"`
}

// WhenSpent is the model that answers for others of a team whose dollars of the month are spent.
type WhenSpent struct {
	Model string `json:"model"`
	// Replaces are the models that it answers for.
	Replaces []string `json:"replaces"`
	// MonthlyUSD is what requests to Model may cost beyond the budget of the team; 0 means no limit.
	MonthlyUSD float64 `json:"monthly_usd"`
}

// Price is the price of a model's tokens.
type Price struct {
	InputUSD  float64 `json:"input_usd_per_million"`
	OutputUSD float64 `json:"output_usd_per_million"`
}

// Keys names the document of API keys.
type Keys struct {
	// Secret is projects/P/secrets/S in Secret Manager. Empty means no API keys.
	Secret string `json:"secret"`
}

// JWT is an issuer of tokens, with the mapping of their claims to teams.
type JWT struct {
	Issuer    string   `json:"issuer"`
	Audiences []string `json:"audiences"`
	JWKSURI   string   `json:"jwks_uri"`
	// Header carries the token: authorization with `Bearer`, any other header with only the token.
	Header string `json:"header"`
	// Claim is the claim whose value, or one of whose values, is a key of Teams.
	Claim string            `json:"claim"`
	Teams map[string]string `json:"teams"`
}

type document struct {
	Region    string                     `json:"region"`
	Replicas  int64                      `json:"replicas"`
	Anonymous bool                       `json:"anonymous"`
	Batches   bool                       `json:"batches"`
	Teams     map[string]json.RawMessage `json:"teams"`
	Prices    map[string]json.RawMessage `json:"prices"`
	Pools     map[string]string          `json:"pools"`
	Guards    map[string]json.RawMessage `json:"guards"`
	Models    map[string]json.RawMessage `json:"models"`
	Context   int64                      `json:"default_context"`
	Idle      float64                    `json:"stream_idle_seconds"`
	Keys      json.RawMessage            `json:"keys"`
	JWT       []json.RawMessage          `json:"jwt"`
	Store     json.RawMessage            `json:"store"`
	Cache     json.RawMessage            `json:"cache"`
	Turns     json.RawMessage            `json:"turns"`

	Certificates json.RawMessage `json:"certificates"`
}

// Parse reads and validates the content of a file. An error is one line: field, rule and value.
func Parse(content []byte) (*Config, error) {
	var found document
	if err := settings.Read(content, &found); err != nil {
		return nil, err
	}
	made := &Config{
		Region: found.Region, Replicas: found.Replicas, Anonymous: found.Anonymous, Batches: found.Batches, Pools: found.Pools,
		Teams: map[string]*Team{}, Prices: map[string]Price{},
		Guards: map[string]Guard{}, Models: map[string]Model{},
		DefaultContext: cmp.Or(found.Context, tokens.DefaultContext),
		StreamIdle:     time.Duration(cmp.Or(found.Idle, defaultIdleSeconds) * float64(time.Second)),
	}
	if err := made.decodeParts(&found); err != nil {
		return nil, err
	}
	return made, made.check()
}

func (c *Config) decodeParts(found *document) error {
	for _, name := range sorted(found.Teams) {
		c.Teams[name] = &Team{}
		if err := settings.Decode("teams."+name, found.Teams[name], c.Teams[name]); err != nil {
			return err
		}
	}
	if err := decodeEach("prices", found.Prices, c.Prices); err != nil {
		return err
	}
	if err := decodeEach("guards", found.Guards, c.Guards); err != nil {
		return err
	}
	if err := decodeEach("models", found.Models, c.Models); err != nil {
		return err
	}
	if err := settings.Decode("keys", found.Keys, &c.Keys); err != nil {
		return err
	}
	for number, raw := range found.JWT {
		issuer := JWT{Header: "authorization"}
		if err := settings.Decode(fmt.Sprintf("jwt[%d]", number), raw, &issuer); err != nil {
			return err
		}
		issuer.Header = strings.ToLower(issuer.Header)
		c.JWT = append(c.JWT, issuer)
	}
	if len(found.Store) > 0 {
		c.Store = &Store{}
		if err := settings.Decode("store", found.Store, c.Store); err != nil {
			return err
		}
	}
	if len(found.Certificates) > 0 {
		c.Certificates = &Certificates{}
		if err := settings.Decode("certificates", found.Certificates, c.Certificates); err != nil {
			return err
		}
	}
	if len(found.Turns) > 0 {
		c.Turns = &Turns{}
		if err := settings.Decode("turns", found.Turns, c.Turns); err != nil {
			return err
		}
	}
	if len(found.Cache) == 0 {
		return nil
	}
	c.Cache = &Cache{}
	return settings.Decode("cache", found.Cache, c.Cache)
}

func decodeEach[V any](field string, found map[string]json.RawMessage, into map[string]V) error {
	for _, name := range sorted(found) {
		var value V
		if err := settings.Decode(field+"."+name, found[name], &value); err != nil {
			return err
		}
		into[name] = value
	}
	return nil
}
