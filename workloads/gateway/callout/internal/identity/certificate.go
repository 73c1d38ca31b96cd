package identity

import (
	"encoding/base64"
	"encoding/hex"
	"log/slog"
	"strings"

	"gke-inference/gateway/callout/internal/config"
	"gke-inference/gateway/internal/calls"
)

// CertificatePrefix is the prefix of the headers that describe a client certificate.
const CertificatePrefix = "x-client-cert-"

// Headers of a client certificate. The load balancer that verified it sets them from its variables
// (Google Cloud, "Create custom headers in backend services", mutual TLS custom headers). Variables can be
// empty, so a fixed text is in front of them: an empty header might not replace that of the client. A value
// without this text is not from the load balancer.
const (
	certPresent     = CertificatePrefix + "present"
	certVerified    = CertificatePrefix + "chain-verified"
	certError       = CertificatePrefix + "error"
	certSPIFFE      = CertificatePrefix + "spiffe"
	certDNSNames    = CertificatePrefix + "dnsname-sans"
	certFingerprint = CertificatePrefix + "hash"

	beforeError       = "error="
	beforeSPIFFE      = "id="
	beforeDNSNames    = "names="
	beforeFingerprint = "sha256="

	// gatewayCaller is the position of the address that called the gateway in X-Forwarded-For, counted
	// from the end: the gateway appends it and then its own.
	gatewayCaller = 2

	maxErrorBytes = 256
)

// verifyCertificate returns the caller with a client certificate. Missing means that there is none.
func verifyCertificate(c *config.Certificates, headers map[string][]string) (Caller, Verdict) {
	if c == nil {
		return Caller{}, Missing
	}
	address, err := calls.Forwarded(headers, gatewayCaller)
	if err != nil || !c.IsFrom(address) || only(headers, certPresent) != "true" {
		return Caller{}, Missing
	}
	team, problem := teamOf(c, headers)
	if problem != "" {
		found := after(beforeError, only(headers, certError))
		slog.Warn("client certificate refused", "problem", problem, "load_balancer", found[:min(len(found), maxErrorBytes)])
		return Caller{}, Invalid
	}
	return Caller{Team: team, KeyID: certificateID}, Valid
}

// teamOf returns the team of a certificate, or the problem with it.
func teamOf(c *config.Certificates, headers map[string][]string) (team, problem string) {
	if only(headers, certVerified) != "true" {
		return "", "not verified"
	}
	for _, identity := range identitiesOf(headers) {
		switch found := c.Teams[identity]; {
		case found == "" || found == team:
		case team == "":
			team = found
		default: // identities of two teams
			return "", "identities of two teams"
		}
	}
	if team == "" {
		return "", "no identity of a team"
	}
	return team, ""
}

// identitiesOf returns the identities of a certificate, in the format of the configuration.
func identitiesOf(headers map[string][]string) []string {
	var found []string
	if id := after(beforeSPIFFE, only(headers, certSPIFFE)); id != "" {
		found = append(found, id)
	}
	if digest, ok := decoded(after(beforeFingerprint, only(headers, certFingerprint))); ok {
		found = append(found, "sha256:"+hex.EncodeToString(digest))
	}
	for _, text := range strings.Split(after(beforeDNSNames, only(headers, certDNSNames)), ",") {
		if name, ok := decoded(strings.TrimSpace(text)); ok {
			found = append(found, "dns:"+strings.ToLower(string(name)))
		}
	}
	return found
}

// after returns the text after its beginning, and nothing if it begins differently.
func after(beginning, text string) string {
	found, has := strings.CutPrefix(text, beginning)
	if !has {
		return ""
	}
	return found
}

func decoded(text string) ([]byte, bool) {
	content, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	return content, err == nil && len(content) > 0
}

// only returns the value of a header that appears once. The load balancer replaces what a client sends,
// so a second value is not from it.
func only(headers map[string][]string, name string) string {
	if values := headers[name]; len(values) == 1 {
		return values[0]
	}
	return ""
}
