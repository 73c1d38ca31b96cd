package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"

	"gke-inference/gateway/internal/bounds"
)

var inRange = bounds.Of("callout")

// AllModels, in a team's list, stands for every model.
const AllModels = "*"

var (
	teamName  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	headerTop = regexp.MustCompile(`^[a-z0-9-]+$`)
	objective = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	secret    = regexp.MustCompile(`^projects/[^/]+/secrets/[A-Za-z0-9_-]+$`)
)

func (c *Config) check() error {
	if c.Region == "" {
		return fmt.Errorf("region: is required")
	}
	if err := inRange.Check("replicas", "replicas", float64(c.Replicas)); err != nil {
		return err
	}
	if err := inRange.Check("default_context", "default_context", float64(c.DefaultContext)); err != nil {
		return err
	}
	if err := inRange.Check("stream_idle_seconds", "stream_idle_seconds", c.StreamIdle.Seconds()); err != nil {
		return err
	}
	if c.Keys.Secret == "" && len(c.JWT) == 0 && c.Certificates == nil && !c.Anonymous {
		return fmt.Errorf("keys, jwt, certificates, anonymous: one of them is required, otherwise no client is admitted")
	}
	if c.Keys.Secret != "" && !secret.MatchString(c.Keys.Secret) {
		return fmt.Errorf("keys.secret: must be projects/PROJECT/secrets/NAME, got %q", c.Keys.Secret)
	}
	if c.Anonymous && c.Teams[Anonymous] == nil {
		return fmt.Errorf("teams.%s: is required with anonymous: true", Anonymous)
	}
	checks := []func() error{
		c.checkPrices, c.checkTeams, c.checkGuards, c.checkJWT, c.checkCertificates, c.checkStore, c.checkCache,
		c.checkTurns,
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) checkTeams() error {
	if len(c.Teams) == 0 {
		return fmt.Errorf("teams: must have at least one team")
	}
	for _, name := range sorted(c.Teams) {
		team, field := c.Teams[name], "teams."+name
		if !teamName.MatchString(name) {
			return fmt.Errorf("%s: a team must be up to 63 of a-z, 0-9 and inner hyphens, got %q", field, name)
		}
		if len(team.Models) == 0 || slices.Contains(team.Models, "") {
			return fmt.Errorf("%s.models: must list models, or %q for all, got %q", field, AllModels, team.Models)
		}
		if team.Objective != "" && !objective.MatchString(team.Objective) {
			return fmt.Errorf("%s.objective: must be the name of an InferenceObjective, got %q", field, team.Objective)
		}
		if err := c.checkLimits(field, team); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) checkLimits(field string, team *Team) error {
	limits := []struct {
		name  string
		value int64
	}{
		{"requests_per_minute", team.RequestsPerMinute},
		{"tokens_per_minute", team.TokensPerMinute},
		{"tokens_per_month", team.TokensPerMonth},
	}
	for _, limit := range limits {
		if err := inRange.Check("teams."+limit.name, field+"."+limit.name, float64(limit.value)); err != nil {
			return err
		}
	}
	if team.MonthlyUSD == 0 {
		if team.WhenSpent != nil {
			return fmt.Errorf("%s.when_spent: needs monthly_usd", field)
		}
		return nil
	}
	if err := inRange.Check("teams.monthly_usd", field+".monthly_usd", team.MonthlyUSD); err != nil {
		return err
	}
	for _, model := range team.Models {
		if _, has := c.Prices[model]; !has && model != AllModels {
			return fmt.Errorf("%s.monthly_usd: needs a price of each model of the team, got none of %q", field, model)
		}
	}
	return c.checkWhenSpent(field+".when_spent", team)
}

func (c *Config) checkWhenSpent(field string, team *Team) error {
	spent := team.WhenSpent
	switch {
	case spent == nil:
		return nil
	case !c.Permits(team, spent.Model):
		return fmt.Errorf("%s.model: must be a model with a price that the team may use, got %q", field, spent.Model)
	case len(spent.Replaces) == 0 || slices.Contains(spent.Replaces, spent.Model):
		return fmt.Errorf("%s.replaces: must list other models than %q, got %q", field, spent.Model, spent.Replaces)
	case spent.MonthlyUSD == 0:
		return nil
	}
	return inRange.Check("teams.when_spent.monthly_usd", field+".monthly_usd", spent.MonthlyUSD)
}

func (c *Config) checkPrices() error {
	for _, model := range sorted(c.Prices) {
		for _, usd := range []float64{c.Prices[model].InputUSD, c.Prices[model].OutputUSD} {
			if err := inRange.Check("prices", "prices."+model, usd); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Config) checkJWT() error {
	for number, issuer := range c.JWT {
		field := fmt.Sprintf("jwt[%d]", number)
		if issuer.Issuer == "" {
			return fmt.Errorf("%s.issuer: is required", field)
		}
		if len(issuer.Audiences) == 0 {
			return fmt.Errorf("%s.audiences: is required, otherwise tokens for other services are accepted", field)
		}
		address, err := url.Parse(issuer.JWKSURI)
		isLocal := err == nil && address.Scheme == "http" && net.ParseIP(address.Hostname()).IsLoopback()
		if err != nil || address.Host == "" || (address.Scheme != "https" && !isLocal) {
			return fmt.Errorf("%s.jwks_uri: must be an https address, got %q", field, issuer.JWKSURI)
		}
		if !headerTop.MatchString(issuer.Header) {
			return fmt.Errorf("%s.header: must be the name of a header, got %q", field, issuer.Header)
		}
		if issuer.Claim == "" || len(issuer.Teams) == 0 {
			return fmt.Errorf("%s: needs claim, and teams for its values", field)
		}
		for _, value := range sorted(issuer.Teams) {
			if c.Teams[issuer.Teams[value]] == nil {
				return fmt.Errorf("%s.teams.%s: must be a team of the file, got %q", field, value, issuer.Teams[value])
			}
		}
	}
	return nil
}

func (c *Config) checkStore() error {
	if c.Store == nil {
		return nil
	}
	return c.Store.check("store")
}

func (s Store) check(field string) error {
	if _, port, err := net.SplitHostPort(s.Address); err != nil || port == "" {
		return fmt.Errorf("%s.address: must be HOST:PORT, got %q", field, s.Address)
	}
	if s.CA != "" && !s.TLS {
		return fmt.Errorf("%s.ca: needs %s.tls: true, got tls: false", field, field)
	}
	_, err := s.TLSConfig(field)
	return err
}

func sorted[K cmp.Ordered, V any](table map[K]V) []K { return slices.Sorted(maps.Keys(table)) }
