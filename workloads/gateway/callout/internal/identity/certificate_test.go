package identity

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"gke-inference/gateway/callout/internal/config"
)

const certificates = `
region: r
replicas: 1
teams: {research: {models: ["*"]}, web: {models: ["*"]}}
jwt:
  - {issuer: "https://login.example.org", audiences: [us], jwks_uri: "http://127.0.0.1:1/keys", header: authorization,
     claim: team, teams: {r: research}}
certificates:
  from: [10.3.0.0/24]
  teams:
    spiffe://example.org/lab: research
    dns:lab.example.org: research
    dns:shop.example.org: web
    sha256:` + "aa00000000000000000000000000000000000000000000000000000000000000" + `: web
`

// described returns the headers of a verified certificate, with changes. A nil value removes a header.
func described(changes map[string][]string) map[string][]string {
	found := map[string][]string{
		"x-forwarded-for":              {"198.51.100.7, 34.0.0.1", "10.3.0.9, 10.0.0.2"},
		"x-client-cert-present":        {"true"},
		"x-client-cert-chain-verified": {"true"},
	}
	maps.Copy(found, changes)
	maps.DeleteFunc(found, func(_ string, values []string) bool { return values == nil })
	return found
}

// unsignedToken returns a token that names an issuer, without a signature.
func unsignedToken(issuer string) string {
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	return part(`{"alg":"none"}`) + "." + part(`{"iss":"`+issuer+`"}`) + "."
}

func encoded(names ...string) string {
	for at, name := range names {
		names[at] = base64.StdEncoding.EncodeToString([]byte(name))
	}
	return strings.Join(names, ",")
}

func TestAVerifiedCertificateIsOfTheTeamOfItsIdentity(t *testing.T) {
	digest, err := hex.DecodeString("aa" + strings.Repeat("00", 31))
	if err != nil {
		t.Fatal(err)
	}
	lab := []string{"id=spiffe://example.org/lab"}
	for name, one := range map[string]struct {
		changes map[string][]string
		team    string
		want    Verdict
	}{
		"SPIFFE ID":   {map[string][]string{certSPIFFE: lab}, "research", Valid},
		"DNS name":    {map[string][]string{certDNSNames: {"names=" + encoded("other", "Lab.example.org")}}, "research", Valid},
		"fingerprint": {map[string][]string{certFingerprint: {"sha256=" + encoded(string(digest))}}, "web", Valid},
		"two of a team": {map[string][]string{certSPIFFE: lab, certDNSNames: {"names=" + encoded("lab.example.org")}},
			"research", Valid},
		"two teams":                 {map[string][]string{certDNSNames: {"names=" + encoded("lab.example.org", "shop.example.org")}}, "", Invalid},
		"unknown identity":          {map[string][]string{certSPIFFE: {"id=spiffe://example.org/other"}}, "", Invalid},
		"SPIFFE ID of the client":   {map[string][]string{certSPIFFE: {"spiffe://example.org/lab"}}, "", Invalid},
		"DNS name of the client":    {map[string][]string{certDNSNames: {encoded("lab.example.org")}}, "", Invalid},
		"fingerprint of the client": {map[string][]string{certFingerprint: {encoded(string(digest))}}, "", Invalid},
		"empty variables": {map[string][]string{certSPIFFE: {"id="}, certDNSNames: {"names="},
			certFingerprint: {"sha256="}}, "", Invalid},
		"no identity":       {nil, "", Invalid},
		"not verified":      {map[string][]string{certSPIFFE: lab, certVerified: {"false"}}, "", Invalid},
		"verdict twice":     {map[string][]string{certSPIFFE: lab, certVerified: {"true", "false"}}, "", Invalid},
		"identity twice":    {map[string][]string{certSPIFFE: {lab[0], lab[0]}}, "", Invalid},
		"no verdict":        {map[string][]string{certSPIFFE: lab, certVerified: nil}, "", Invalid},
		"no certificate":    {map[string][]string{certSPIFFE: lab, certPresent: {"false"}}, "", Missing},
		"another network":   {map[string][]string{certSPIFFE: lab, "x-forwarded-for": {"10.3.0.9, 10.0.0.7, 10.0.0.2"}}, "", Missing},
		"unknown network":   {map[string][]string{certSPIFFE: lab, "x-forwarded-for": nil}, "", Missing},
		"and a placeholder": {map[string][]string{certSPIFFE: lab, "authorization": {"Bearer unused"}}, "research", Valid},
		"and a placeholder in Anthropic's header": {map[string][]string{certSPIFFE: lab, "x-api-key": {"unused"}}, "research", Valid},
		"and a wrong key":                         {map[string][]string{certSPIFFE: lab, "authorization": {"Bearer " + keyOf("aaaaaaaa")}}, "", Invalid},
		"and a wrong token": {map[string][]string{certSPIFFE: lab,
			"authorization": {"Bearer " + unsignedToken("https://login.example.org")}}, "", Invalid},
		"and two credentials": {map[string][]string{certSPIFFE: lab, "authorization": {"Bearer a", "Bearer b"}}, "", Invalid},
		"a placeholder alone": {map[string][]string{certPresent: nil, "authorization": {"Bearer unused"}}, "", Invalid},
		"not verified, and a placeholder": {map[string][]string{certSPIFFE: lab, certVerified: {"false"},
			"authorization": {"Bearer unused"}}, "", Invalid},
	} {
		c, err := config.Parse([]byte(certificates))
		if err != nil {
			t.Fatal(err)
		}
		caller, verdict := verifierOf(t, c).Verify(c, described(one.changes), now)
		if caller.Team != one.team || verdict != one.want {
			t.Errorf("%s: got %+v, %v", name, caller, verdict)
		}
	}
}

func TestTheErrorOfTheLoadBalancerIsLoggedWithARefusal(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	c, err := config.Parse([]byte(certificates))
	if err != nil {
		t.Fatal(err)
	}
	problem := "client_cert_dnsname_sans_exceeded_size_limit"
	headers := described(map[string][]string{certDNSNames: {"names="}, certError: {"error=" + problem}})
	if _, verdict := verifierOf(t, c).Verify(c, headers, now); verdict != Invalid {
		t.Errorf("got %v", verdict)
	}
	want := `problem="no identity of a team" load_balancer=` + problem + "\n"
	if !strings.HasSuffix(log.String(), want) {
		t.Errorf("got %s", log.String())
	}
}

func TestCertificateHeadersProveNothingWithoutCertificates(t *testing.T) {
	c, err := config.Parse([]byte(strings.Split(certificates, "jwt:")[0] + "keys: {secret: projects/p/secrets/s}"))
	if err != nil {
		t.Fatal(err)
	}
	headers := described(map[string][]string{certSPIFFE: {"id=spiffe://example.org/lab"}})
	if _, verdict := verifierOf(t, c).Verify(c, headers, now); verdict != Missing {
		t.Errorf("got %v", verdict)
	}
}
