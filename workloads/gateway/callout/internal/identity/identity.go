package identity

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"gke-inference/gateway/callout/internal/config"
)

// Caller is the sender of a request.
type Caller struct {
	Team string
	// KeyID is the ID of an API key, `jwt` for a token, `certificate` for a client certificate, and empty
	// without a credential.
	KeyID string
	// Subject is the claim `sub` of a token, which tells the members of a team apart; empty for other
	// credentials, and for a claim that is longer than OpenID Connect allows.
	Subject string
}

// Verdict is the result of checking a credential.
type Verdict int

const (
	// Valid means a credential of a team.
	Valid Verdict = iota
	// Missing means that there is no credential, but one is required.
	Missing
	// Invalid means that the credential is wrong, expired or revoked.
	Invalid
	// Unknown means that a credential cannot be checked: the document of keys was never read, or the
	// keys of an issuer cannot be read, and the last ones do not have that of the token.
	Unknown
	// Unpublished means that a token names a key that its issuer has not published, perhaps not yet.
	Unpublished
)

// Verifier checks credentials against the newest configuration.
type Verifier struct {
	secret *Secret
	// saltKey derives salts until a document of keys has one.
	saltKey string
	issuers atomic.Pointer[[]*issuer]
}

// NewVerifier returns a verifier with the keys of a secret.
func NewVerifier(secret *Secret) *Verifier {
	v := &Verifier{secret: secret, saltKey: newSaltKey()}
	v.issuers.Store(&[]*issuer{})
	return v
}

// Use applies the issuers and the secret of a configuration.
func (v *Verifier) Use(ctx context.Context, c *config.Config) {
	v.secret.Rename(c.Keys.Secret)
	made := issuersOf(ctx, c.JWT, *v.issuers.Load())
	v.issuers.Store(&made)
}

// Verify returns the caller of a request, from its headers with lowercase names. An invalid credential
// is never treated as a missing one. A key of the platform or a token of an issuer counts before a client
// certificate. Anything else does not: OpenAI's libraries always send a key, if only a placeholder.
func (v *Verifier) Verify(c *config.Config, headers map[string][]string, now time.Time) (Caller, Verdict) {
	if c.Anonymous && c.Keys.Secret == "" && len(c.JWT) == 0 && c.Certificates == nil {
		return Caller{Team: config.Anonymous}, Valid
	}
	credential, has, isOne := keyOrToken(headers)
	if !isOne {
		return Caller{}, Invalid
	}
	if has && strings.HasPrefix(credential, KeyPrefix) {
		return v.verifyKey(c, credential, now)
	}
	isToken, verdict := false, Invalid
	for _, one := range *v.issuers.Load() {
		token := credential
		if one.Header != "authorization" {
			if len(headers[one.Header]) == 0 {
				continue
			}
			token = headers[one.Header][0]
		} else if !has || !isFrom(credential, one.Issuer) {
			continue
		}
		isToken = true
		switch caller, found := one.verify(token, now); found {
		case Valid:
			return caller, Valid
		case Invalid:
		default:
			verdict = found
		}
	}
	if isToken {
		return Caller{}, verdict
	}
	caller, verdict := verifyCertificate(c.Certificates, headers)
	switch {
	case verdict != Missing:
		return caller, verdict
	case has:
		return Caller{}, Invalid
	case c.Anonymous:
		return Caller{Team: config.Anonymous}, Valid
	default:
		return Caller{}, Missing
	}
}

func (v *Verifier) verifyKey(c *config.Config, credential string, now time.Time) (Caller, Verdict) {
	if c.Keys.Secret == "" {
		return Caller{}, Invalid
	}
	keys := v.secret.Keys()
	if keys == nil {
		return Caller{}, Unknown
	}
	team, id, ok := keys.Verify(credential, now)
	if !ok {
		return Caller{}, Invalid
	}
	return Caller{Team: team, KeyID: id}, Valid
}

// keyOrToken returns the credential in `authorization` or `x-api-key`. More than one is invalid.
func keyOrToken(headers map[string][]string) (credential string, has, isOne bool) {
	authorization, key := headers["authorization"], headers["x-api-key"]
	if len(authorization) > 1 || len(key) > 1 {
		return "", true, false
	}
	if len(authorization) == 1 {
		token, isBearer := bearer(authorization[0])
		isSame := len(key) == 0 || key[0] == token
		return token, true, isBearer && isSame
	}
	if len(key) == 1 {
		return key[0], true, true
	}
	return "", false, true
}
