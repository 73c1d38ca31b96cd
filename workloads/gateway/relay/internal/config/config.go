// Package config reads the file of backends, and watches it for changes.
package config

import (
	"gke-inference/gateway/internal/settings"
	"gke-inference/gateway/internal/tokens"
)

// Kinds of credentials for targets.
const (
	AuthNone    = "none"
	AuthSecret  = "secret"
	AuthGoogle  = "google"
	AuthIDToken = "id-token"
)

// Config is one validated version of the file.
type Config struct {
	// Backends are the models for clients, by the name in `model`.
	Backends map[string]*Backend `json:"backends"`
	// Fallback is set if the program is a replica of a pool.
	Fallback *Fallback `json:"fallback"`
	// Front is set if the program routes the requests of a global load balancer to regions, and calls no
	// backend itself.
	Front *Front `json:"front"`
}

// Front has the gateways of regions, and the regions of models.
type Front struct {
	// ServerName is the name in the certificate of the gateways, and the host of requests for their health.
	ServerName string `json:"server_name"`
	// Regions are the addresses of the gateways, such as https://10.1.2.3.
	Regions map[string]string `json:"regions"`
	// Near are all regions, the nearest first.
	Near []string `json:"near"`
	// Models are the models that some regions do not serve, or that have a fallback.
	Models map[string]*FrontModel `json:"models"`
	// Guard checks prompts before they reach a region. Nil is none.
	Guard *FrontGuard `json:"guard"`
}

// FrontGuard is a template of Model Armor.
type FrontGuard struct {
	// Template is projects/P/locations/L/templates/T.
	Template string `json:"template"`
	// FailOpen lets prompts pass for which there is no verdict.
	FailOpen bool `json:"fail_open"`
	// TimeoutMS is the maximum time to wait for a verdict.
	TimeoutMS int `json:"timeout_ms"`
}

// FrontModel is where a model answers.
type FrontModel struct {
	// Regions are those that serve it, the nearest first.
	Regions []string `json:"regions"`
	// Fallback is the model that is requested, in any region, if no region serves this one. Empty is none.
	Fallback string `json:"fallback"`
}

// Backend is one model that runs elsewhere.
type Backend struct {
	// ForceUsage keeps the usage in every stream, also if the client did not request it, because a
	// component in front of this program counts tokens by it.
	ForceUsage bool `json:"force_usage"`
	// Context is the assumed maximum length of a prompt with its answer, in tokens.
	Context        int64   `json:"context"`
	TimeoutSeconds float64 `json:"timeout_seconds"`
	// IdleSeconds is the longest time without a byte of a stream. 0 is none but TimeoutSeconds.
	IdleSeconds float64   `json:"idle_seconds"`
	Targets     []*Target `json:"targets"`
}

// Target is one place where a backend runs.
type Target struct {
	Name   string `json:"name"`
	URL    string `json:"url"`
	Model  string `json:"model"`
	Weight int    `json:"weight"`
	Auth   Auth   `json:"auth"`
	// Paths are the paths of the target, such as `chat/completions`. Empty means all relayed paths.
	Paths []string `json:"paths"`
}

// Auth is how the platform authenticates to a target.
type Auth struct {
	Kind string `json:"kind"`
	// Secret is projects/P/secrets/S in Secret Manager.
	Secret string `json:"secret"`
	// Audience and ServiceAccount are the audience and the identity of an ID token.
	Audience       string `json:"audience"`
	ServiceAccount string `json:"service_account"`
}

// Fallback makes the program a replica of a model's pool that takes requests beyond the engines'
// capacity: it sends them to a backend, or lets them wait for an engine.
type Fallback struct {
	// Model is the name of one of the backends, if there are any.
	Model string `json:"model"`
	// AfterQueue is the queue that every engine must have before the fallback takes requests.
	AfterQueue int     `json:"after_queue"`
	MonthlyUSD float64 `json:"monthly_usd"`
	InputUSD   float64 `json:"input_usd_per_million"`
	OutputUSD  float64 `json:"output_usd_per_million"`
	// Namespace, Selector and Port select the engines; Count is the ConfigMap with the amount spent.
	Namespace string            `json:"namespace"`
	Selector  map[string]string `json:"selector"`
	Port      int               `json:"port"`
	Count     string            `json:"count"`
	// Replicas is the number of relays of the fallback, which share what is left of the budget. 0 is 1.
	Replicas int64 `json:"replicas"`
	// Refused are objectives whose requests must not cost money, such as POOL-batch.
	Refused []string    `json:"refused_objectives"`
	Metrics MetricNames `json:"metrics"`
	// Wait is set if requests wait for an engine where there is none, and no backend answers them.
	Wait *Wait `json:"wait"`
}

// Wait limits the requests that wait for the first engine of a model.
type Wait struct {
	// Requests is the maximum number that waits in one relay.
	Requests int `json:"requests"`
	// Seconds is the maximum time for which one waits.
	Seconds float64 `json:"seconds"`
	// ExpectedSeconds is the estimated time from the first request to an engine.
	ExpectedSeconds float64 `json:"expected_seconds"`
}

// MetricNames are the metrics that the pool's picker reads from each replica.
type MetricNames struct {
	Queue     string `json:"queue"`
	Running   string `json:"running"`
	KVCache   string `json:"kv_cache"`
	CacheInfo string `json:"cache_info"`
}

// Size returns what is known about the tokens of a backend's model.
func (c *Config) Size(model string) tokens.Model {
	found := tokens.Model{Context: tokens.DefaultContext, IsAssumed: true}
	if backend, has := c.Backends[model]; has && backend.Context > 0 {
		found.Context = backend.Context
	}
	return found
}

// Parse reads and validates the content of a file. An error is one line: field, rule and value.
func Parse(content []byte) (*Config, error) {
	made := &Config{}
	if err := settings.Read(content, made); err != nil {
		return nil, err
	}
	return made, made.check()
}
