package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
)

func (c *Config) check() error {
	if len(c.Backends) == 0 {
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
	case b.TimeoutSeconds <= 0:
		return fmt.Errorf("%s.timeout_seconds: must be more than 0, got %v", where, b.TimeoutSeconds)
	case b.Context < 0 || b.Context > 1<<30:
		return fmt.Errorf("%s.context: must be 0 to %d, got %d", where, int64(1<<30), b.Context)
	case len(b.Targets) == 0:
		return fmt.Errorf("%s.targets: must have one or more, got none", where)
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
	at, err := url.Parse(t.URL)
	switch {
	case err != nil || at.Host == "" || (at.Scheme != "https" && at.Scheme != "http"):
		return fmt.Errorf("%s.url: must be an http or https address, got %q", where, t.URL)
	case at.User != nil || at.RawQuery != "" || at.Fragment != "":
		return fmt.Errorf("%s.url: must have no user, query or fragment", where)
	case t.Name == "":
		return fmt.Errorf("%s.name: is required", where)
	case t.Model == "":
		return fmt.Errorf("%s.model: is required", where)
	case t.Weight < 1:
		return fmt.Errorf("%s.weight: must be at least 1, got %d", where, t.Weight)
	case t.Auth.Kind != AuthNone && at.Scheme != "https" && !IsLoopback(at):
		return fmt.Errorf("%s.url: must be https when a credential is sent, got %q", where, t.URL)
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
	if _, has := backends[f.Model]; !has {
		return fmt.Errorf("fallback.model: must be one of the backends, got %q", f.Model)
	}
	for _, one := range []struct {
		field string
		has   bool
	}{
		{"namespace", f.Namespace != ""}, {"selector", len(f.Selector) > 0}, {"count", f.Count != ""},
		{"metrics.queue", f.Metrics.Queue != ""},
	} {
		if !one.has {
			return fmt.Errorf("fallback.%s: is required", one.field)
		}
	}
	switch {
	case f.AfterQueue < 1:
		return fmt.Errorf("fallback.after_queue: must be at least 1, got %d", f.AfterQueue)
	case f.Replicas < 0:
		return fmt.Errorf("fallback.replicas: must not be negative, got %d", f.Replicas)
	case f.MonthlyUSD <= 0:
		return fmt.Errorf("fallback.monthly_usd: must be more than 0, got %v", f.MonthlyUSD)
	case f.InputUSD < 0 || f.OutputUSD < 0 || f.InputUSD+f.OutputUSD == 0:
		return fmt.Errorf("fallback: must have prices above 0, got %v and %v", f.InputUSD, f.OutputUSD)
	case f.Port < 1 || f.Port > 65535:
		return fmt.Errorf("fallback.port: must be 1 to 65535, got %d", f.Port)
	}
	return nil
}

// IsLoopback reports whether an address is on this machine.
func IsLoopback(at *url.URL) bool {
	ip := net.ParseIP(at.Hostname())
	return ip != nil && ip.IsLoopback()
}
