package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"gke-inference/gateway/internal/bounds"
	"gke-inference/gateway/internal/settings"
)

var inRange = bounds.Of("relay")

func (c *Config) check() error {
	if c.Front != nil {
		return c.checkFront()
	}
	if len(c.Backends) == 0 && (c.Fallback == nil || c.Fallback.Wait == nil) {
		return fmt.Errorf("backends: must have one or more, got none")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Backends)) {
		if err := c.Backends[name].check("backends." + name); err != nil {
			return err
		}
	}
	if c.Fallback == nil {
		return nil
	}
	return c.Fallback.check(c.Backends)
}

func (b *Backend) check(where string) error {
	switch {
	case b == nil:
		return fmt.Errorf("%s: must be an object, got nothing", where)
	case len(b.Targets) == 0:
		return fmt.Errorf("%s.targets: must have one or more, got none", where)
	}
	if err := inRange.Check("backends.timeout_seconds", where+".timeout_seconds", b.TimeoutSeconds); err != nil {
		return err
	}
	if err := inRange.Check("backends.idle_seconds", where+".idle_seconds", b.IdleSeconds); err != nil {
		return err
	}
	if err := inRange.Check("backends.context", where+".context", float64(b.Context)); err != nil {
		return err
	}
	for at, target := range b.Targets {
		if err := target.check(fmt.Sprintf("%s.targets[%d]", where, at)); err != nil {
			return err
		}
	}
	return nil
}

func (t *Target) check(where string) error {
	if t == nil {
		return fmt.Errorf("%s: must be an object, got nothing", where)
	}
	at, err := settings.WebAddress(where+".url", t.URL)
	if err != nil {
		return err
	}
	switch {
	case at.User != nil || at.RawQuery != "" || at.Fragment != "":
		return fmt.Errorf("%s.url: must have no user, query or fragment", where)
	case t.Name == "":
		return fmt.Errorf("%s.name: is required", where)
	case t.Model == "":
		return fmt.Errorf("%s.model: is required", where)
	case t.Auth.Kind != AuthNone && at.Scheme != "https" && !IsLoopback(at):
		return fmt.Errorf("%s.url: must be https when a credential is sent, got %q", where, t.URL)
	}
	if err := inRange.Check("targets.weight", where+".weight", float64(t.Weight)); err != nil {
		return err
	}
	return t.Auth.check(where + ".auth")
}

func (a *Auth) check(where string) error {
	switch a.Kind {
	case AuthNone, AuthGoogle:
	case AuthSecret:
		parts := strings.Split(a.Secret, "/")
		if len(parts) != 4 || parts[0] != "projects" || parts[2] != "secrets" {
			return fmt.Errorf("%s.secret: must be projects/P/secrets/S, got %q", where, a.Secret)
		}
	case AuthIDToken:
		if a.Audience == "" || !strings.Contains(a.ServiceAccount, "@") {
			return fmt.Errorf("%s: must have an audience and a service_account, got %q and %q",
				where, a.Audience, a.ServiceAccount)
		}
	default:
		return fmt.Errorf("%s.kind: must be one of google, id-token, none, secret, got %q", where, a.Kind)
	}
	return nil
}

func (f *Fallback) check(backends map[string]*Backend) error {
	if f.Wait != nil {
		if err := inRange.CheckAll(map[string]float64{
			"fallback.wait.requests": float64(f.Wait.Requests), "fallback.wait.seconds": f.Wait.Seconds,
			"fallback.wait.expected_seconds": f.Wait.ExpectedSeconds,
		}); err != nil {
			return err
		}
	}
	if err := f.checkPool(); err != nil || len(backends) == 0 {
		return err
	}
	if _, has := backends[f.Model]; !has {
		return fmt.Errorf("fallback.model: must be one of the backends, got %q", f.Model)
	}
	if f.Count == "" {
		return fmt.Errorf("fallback.count: is required")
	}
	if err := inRange.CheckAll(map[string]float64{
		"fallback.after_queue": float64(f.AfterQueue), "fallback.replicas": float64(f.Replicas),
		"fallback.monthly_usd": f.MonthlyUSD,
	}); err != nil {
		return err
	}
	if f.InputUSD < 0 || f.OutputUSD < 0 || f.InputUSD+f.OutputUSD == 0 {
		return fmt.Errorf("fallback: must have prices above 0, got %v and %v", f.InputUSD, f.OutputUSD)
	}
	return nil
}

// checkPool checks what selects the engines and their metrics.
func (f *Fallback) checkPool() error {
	for _, one := range []struct {
		field string
		has   bool
	}{
		{"namespace", f.Namespace != ""}, {"selector", len(f.Selector) > 0}, {"metrics.queue", f.Metrics.Queue != ""},
	} {
		if !one.has {
			return fmt.Errorf("fallback.%s: is required", one.field)
		}
	}
	return inRange.Check("fallback.port", "fallback.port", float64(f.Port))
}

func (c *Config) checkFront() error {
	f := c.Front
	switch {
	case len(c.Backends) > 0 || c.Fallback != nil:
		return fmt.Errorf("front: must be alone: a router of a front has no backends and no fallback")
	case f.ServerName == "":
		return fmt.Errorf("front.server_name: is required")
	case len(f.Regions) == 0:
		return fmt.Errorf("front.regions: must have one or more, got none")
	}
	for _, name := range slices.Sorted(maps.Keys(f.Regions)) {
		if _, err := settings.WebAddress("front.regions."+name, f.Regions[name]); err != nil {
			return err
		}
	}
	if err := f.checkRegions("front.near", f.Near); err != nil {
		return err
	}
	if f.Guard != nil {
		parts := strings.Split(f.Guard.Template, "/")
		if len(parts) != 6 || parts[0] != "projects" || parts[2] != "locations" || parts[4] != "templates" {
			return fmt.Errorf("front.guard.template: must be projects/P/locations/L/templates/T, got %q", f.Guard.Template)
		}
		name := "front.guard.timeout_ms"
		if err := inRange.Check(name, name, float64(f.Guard.TimeoutMS)); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Models)) {
		where := "front.models." + name
		model := f.Models[name]
		switch {
		case model == nil:
			return fmt.Errorf("%s: must be an object, got nothing", where)
		case len(model.Regions) == 0:
			return fmt.Errorf("%s.regions: must have one or more, got none", where)
		case model.Fallback == name:
			return fmt.Errorf("%s.fallback: must be another model, got %q", where, name)
		}
		if err := f.checkRegions(where+".regions", model.Regions); err != nil {
			return err
		}
	}
	return nil
}

func (f *Front) checkRegions(where string, regions []string) error {
	for at, name := range regions {
		if _, has := f.Regions[name]; !has {
			return fmt.Errorf("%s[%d]: must be one of front.regions, got %q", where, at, name)
		}
	}
	return nil
}

// IsLoopback reports whether an address is on this machine.
func IsLoopback(at *url.URL) bool {
	ip := net.ParseIP(at.Hostname())
	return ip != nil && ip.IsLoopback()
}
