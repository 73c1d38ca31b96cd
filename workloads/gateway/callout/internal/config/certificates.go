package config

import (
	"fmt"
	"net/netip"
	"regexp"
)

// Certificates are client certificates that a load balancer in front of the gateway has verified. It
// describes them in headers, which are believed only from its own connections: any other caller of the
// gateway can write the same headers.
type Certificates struct {
	// From are the networks of connections from that load balancer to the gateway.
	From []string `json:"from"`
	// Teams has the team of each identity: a SPIFFE ID, `dns:NAME` or `sha256:HEX` (of a certificate).
	Teams map[string]string `json:"teams"`

	networks []netip.Prefix
}

var identity = regexp.MustCompile(`^(spiffe://[^\s,]+|dns:[a-z0-9*.-]+|sha256:[0-9a-f]{64})$`)

// IsFrom reports whether a connection from an address carries verified certificates.
func (c *Certificates) IsFrom(address netip.Addr) bool {
	for _, network := range c.networks {
		if network.Contains(address) {
			return true
		}
	}
	return false
}

func (c *Config) checkCertificates() error {
	if c.Certificates == nil {
		return nil
	}
	found := c.Certificates
	if len(found.From) == 0 || len(found.Teams) == 0 {
		return fmt.Errorf("certificates: needs from, and teams for identities")
	}
	for number, text := range found.From {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("certificates.from[%d]: must be a network such as 10.3.0.0/24, got %q", number, text)
		}
		found.networks = append(found.networks, network)
	}
	for _, name := range sorted(found.Teams) {
		if !identity.MatchString(name) {
			return fmt.Errorf("certificates.teams: must have identities spiffe://..., dns:NAME or sha256:HEX, got %q", name)
		}
		if c.Teams[found.Teams[name]] == nil {
			return fmt.Errorf("certificates.teams.%s: must be a team of the file, got %q", name, found.Teams[name])
		}
	}
	return nil
}
