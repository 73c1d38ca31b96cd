package identity

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"

	"gke-inference/gateway/callout/internal/config"
)

const (
	clockLeeway = 30 * time.Second

	// maxSubjectBytes is the longest claim `sub` (OpenID Connect Core 1.0, section 2: 255 ASCII
	// characters).
	maxSubjectBytes = 255

	// iapKeys are the public keys of Identity-Aware Proxy. The environment variable IAP_KEYS replaces
	// this address.
	iapKeys = "https://www.gstatic.com/iap/verify/public_key-jwk"
)

// Signature algorithms with public keys. `none` and shared secrets are not accepted.
var signatures = []string{"ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA"}

type issuer struct {
	config.JWT
	keys   keyfunc.Keyfunc
	cancel context.CancelFunc
}

// issuersOf returns a verifier for each issuer. Unchanged issuers keep their keys.
func issuersOf(ctx context.Context, wanted []config.JWT, old []*issuer) []*issuer {
	made := make([]*issuer, 0, len(wanted))
	for _, one := range wanted {
		at := slices.IndexFunc(old, func(o *issuer) bool { return reflect.DeepEqual(o.JWT, one) })
		if at >= 0 {
			made = append(made, old[at])
			continue
		}
		made = append(made, newIssuer(ctx, one))
	}
	for _, one := range old {
		if !slices.Contains(made, one) {
			one.cancel()
		}
	}
	return made
}

func newIssuer(ctx context.Context, wanted config.JWT) *issuer {
	ctx, cancel := context.WithCancel(ctx)
	uri := wanted.JWKSURI
	if uri == iapKeys {
		uri = fromEnv("IAP_KEYS", iapKeys)
	}
	keys, err := keyfunc.New(keyfunc.Options{Ctx: ctx, Storage: newIssuerKeys(ctx, uri)})
	if err != nil {
		slog.Error("keys of an issuer not usable", "jwks_uri", wanted.JWKSURI, "error", err.Error())
	}
	return &issuer{JWT: wanted, keys: keys, cancel: cancel}
}

// verify returns the caller with a token.
func (i *issuer) verify(token string, now time.Time) (Caller, Verdict) {
	if i.keys == nil || !isFrom(token, i.Issuer) {
		return Caller{}, Invalid
	}
	claims := jwt.MapClaims{}
	_, err := jwt.ParseWithClaims(token, claims, i.keys.Keyfunc,
		jwt.WithValidMethods(signatures),
		jwt.WithIssuer(i.Issuer),
		jwt.WithAudience(i.Audiences...),
		jwt.WithExpirationRequired(),
		jwt.WithLeeway(clockLeeway),
		jwt.WithTimeFunc(func() time.Time { return now }),
	)
	switch {
	case errors.Is(err, errUnread):
		return Caller{}, Unknown
	case errors.Is(err, jwkset.ErrKeyNotFound):
		return Caller{}, Unpublished
	case err != nil:
		return Caller{}, Invalid
	}
	for _, value := range values(claims[i.Claim]) {
		if team, has := i.Teams[value]; has {
			return Caller{Team: team, KeyID: tokenID, Subject: subject(claims)}, Valid
		}
	}
	return Caller{}, Invalid
}

// subject returns the claim `sub`, or nothing if there is none or it is too long.
func subject(claims jwt.MapClaims) string {
	found, err := claims.GetSubject()
	if err != nil || len(found) > maxSubjectBytes {
		return ""
	}
	return found
}

// isFrom returns whether a token names an issuer, without a look at its signature. The key of another
// issuer's token is unknown here, and reading the keys again for it would delay valid requests.
func isFrom(token, name string) bool {
	claims := jwt.MapClaims{}
	if _, _, err := jwt.NewParser().ParseUnverified(token, claims); err != nil {
		return false
	}
	found, err := claims.GetIssuer()
	return err == nil && found == name
}

// values returns the strings of a claim: one, or a list such as groups.
func values(claim any) []string {
	switch found := claim.(type) {
	case string:
		return []string{found}
	case []any:
		texts := make([]string, 0, len(found))
		for _, item := range found {
			if text, isText := item.(string); isText {
				texts = append(texts, text)
			}
		}
		return texts
	default:
		return nil
	}
}

func bearer(header string) (string, bool) {
	scheme, token, found := strings.Cut(strings.TrimSpace(header), " ")
	if !found || !strings.EqualFold(scheme, "bearer") {
		return "", false
	}
	return strings.TrimSpace(token), true
}
