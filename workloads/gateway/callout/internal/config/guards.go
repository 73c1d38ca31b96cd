package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gke-inference/gateway/internal/settings"
)

const (
	// InputPhase is the check of prompts.
	InputPhase = "input"
	// OutputPhase is the check of responses.
	OutputPhase = "output"

	failOpen   = "open"
	failClosed = "closed"
)

// Guard is a service that checks prompts and responses.
type Guard struct {
	// URL is the address of the service, without the path of the check.
	URL    string   `json:"url"`
	Phases []string `json:"phases"`
	// Failure is `open` or `closed`: what happens if there is no verdict.
	Failure       string `json:"failure"`
	TimeoutMillis int64  `json:"timeout_ms"`
}

// NamedGuard is a guard with its name.
type NamedGuard struct {
	Name string
	Guard
}

// Model has the settings of a model except its price.
type Model struct {
	// Context is the maximum length of a prompt with its answer, in tokens; 0 if it is not known.
	Context int64    `json:"context"`
	Guards  []string `json:"guards"`
	// CacheSaltPaths are the paths whose requests get a salt for the engine's prefix cache, so that no two
	// teams share it. An engine may refuse a field that it does not know.
	CacheSaltPaths []string `json:"cache_salt_paths"`
}

// FailsClosed reports whether a text without a verdict is refused.
func (g Guard) FailsClosed() bool { return g.Failure == failClosed }

// Timeout returns the maximum duration of one check.
func (g Guard) Timeout() time.Duration { return time.Duration(g.TimeoutMillis) * time.Millisecond }

// GuardsOf returns the guards for a phase of a team's requests to a model: those of the model, then
// those of the team, without duplicates.
func (c *Config) GuardsOf(team *Team, model, phase string) []NamedGuard {
	var found []NamedGuard
	var names []string
	for _, name := range slices.Concat(c.Models[model].Guards, team.Guards) {
		guard := c.Guards[name]
		if slices.Contains(names, name) || !slices.Contains(guard.Phases, phase) {
			continue
		}
		names = append(names, name)
		found = append(found, NamedGuard{name, guard})
	}
	return found
}

// Salts reports whether requests on a path to a model get a salt for the prefix cache.
func (c *Config) Salts(model, path string) bool {
	return slices.Contains(c.Models[model].CacheSaltPaths, path)
}

func (c *Config) checkGuards() error {
	for _, name := range sorted(c.Guards) {
		if err := c.Guards[name].check("guards." + name); err != nil {
			return err
		}
	}
	for _, name := range sorted(c.Models) {
		context := float64(c.Models[name].Context)
		if err := inRange.Check("models.context", "models."+name+".context", context); err != nil {
			return err
		}
		for _, path := range c.Models[name].CacheSaltPaths {
			if !strings.HasPrefix(path, "/v1/") {
				return fmt.Errorf("models.%s.cache_salt_paths: must be paths that begin with /v1/, got %q", name, path)
			}
		}
		if err := c.checkGuardNames("models."+name, c.Models[name].Guards); err != nil {
			return err
		}
	}
	for _, name := range sorted(c.Teams) {
		if err := c.checkGuardNames("teams."+name, c.Teams[name].Guards); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) checkGuardNames(field string, names []string) error {
	for _, name := range names {
		if _, has := c.Guards[name]; !has {
			return fmt.Errorf("%s.guards: must be names of guards, got %q", field, name)
		}
	}
	return nil
}

func (g Guard) check(field string) error {
	if _, err := settings.WebAddress(field+".url", g.URL); err != nil {
		return err
	}
	if len(g.Phases) == 0 {
		return fmt.Errorf("%s.phases: must have %s, %s or both, got none", field, InputPhase, OutputPhase)
	}
	for _, phase := range g.Phases {
		if phase != InputPhase && phase != OutputPhase {
			return fmt.Errorf("%s.phases: must have %s, %s or both, got %q", field, InputPhase, OutputPhase, phase)
		}
	}
	if g.Failure != failOpen && g.Failure != failClosed {
		return fmt.Errorf("%s.failure: must be %s or %s, got %q", field, failOpen, failClosed, g.Failure)
	}
	return inRange.Check("guards.timeout_ms", field+".timeout_ms", float64(g.TimeoutMillis))
}
