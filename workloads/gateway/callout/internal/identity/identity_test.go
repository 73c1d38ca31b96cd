package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"gke-inference/gateway/callout/internal/config"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func keyOf(id string) string { return "gki_" + id + "_" + strings.Repeat("k", 43) }

func entry(id, team, expires string) string {
	sum := sha256.Sum256([]byte(keyOf(id)))
	return fmt.Sprintf(`{"id":%q,"team":%q,"sha256":%q,"created":"2026-01-01T00:00:00Z","expires":%s}`,
		id, team, hex.EncodeToString(sum[:]), expires)
}

func document(entries ...string) []byte {
	return []byte(`{"keys":[` + strings.Join(entries, ",") + `]}`)
}

func TestAKeyIsValidUntilItExpiresOrIsGone(t *testing.T) {
	keys, err := ParseKeys(document(
		entry("aaaaaaaa", "research", "null"),
		entry("bbbbbbbb", "research", `"2026-11-22T12:00:00Z"`),
		entry("cccccccc", "web", `"2026-11-22T12:00:01Z"`),
	))
	if err != nil {
		t.Fatal(err)
	}
	for credential, want := range map[string]string{
		keyOf("aaaaaaaa"):                         "research",
		keyOf("bbbbbbbb"):                         "",
		keyOf("cccccccc"):                         "web",
		keyOf("dddddddd"):                         "",
		keyOf("aaaaaaaa") + "k":                   "",
		"gki_aaaaaaaa_" + strings.Repeat("x", 43): "",
		"gki_": "",
		"":     "",
	} {
		team, _, ok := keys.Verify(credential, now)
		if team != want || ok != (want != "") {
			t.Errorf("%s: got %q, %v", credential, team, ok)
		}
	}
}

func TestABadDocumentOfKeysIsRefusedWithoutItsContent(t *testing.T) {
	for content, want := range map[string]string{
		`{`:                     "must be JSON",
		`{}`:                    "keys: is required",
		`{"keys":[{"id":"a"}]}`: "keys[0]: id and team are required",
		`{"keys":[null]}`:       "keys[0]: id and team are required",
		`{"keys":[{"id":"a","team":"t","sha256":"secret"}]}`:                        "keys[0].sha256",
		string(document(entry("a", "t", "null"), entry("a", "u", "null"))):          "keys[1].id: must be unique",
		`{"keys":[{"id":"a","team":"t","sha256":"","created":"secret yesterday"}]}`: "must be JSON",
	} {
		_, err := ParseKeys([]byte(content))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want %s", content, err, want)
		}
	}
}

func TestTheLastKeysStayWhileSecretManagerIsAway(t *testing.T) {
	var content atomic.Pointer[[]byte]
	first := document(entry("aaaaaaaa", "research", "null"))
	content.Store(&first)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found := content.Load()
		if r.URL.Path != "/v1/projects/p/secrets/s/versions/latest:access" || found == nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		data := base64.StdEncoding.EncodeToString(*found)
		fmt.Fprintf(w, `{"payload":{"data":%q}}`, data)
	}))
	defer server.Close()
	t.Setenv("SECRET_MANAGER_ENDPOINT", server.URL)
	secret := NewSecret("projects/p/secrets/s")
	valid := func() bool {
		if secret.Keys() == nil {
			return false
		}
		_, _, ok := secret.Keys().Verify(keyOf("aaaaaaaa"), now)
		return ok
	}
	if _, has := secret.Age(time.Now()); has || valid() {
		t.Fatal("keys before they were read")
	}
	secret.read(context.Background())
	if !valid() {
		t.Fatal("no keys after they were read")
	}
	bad := []byte(`{"keys": "none"}`)
	for _, one := range []*[]byte{nil, &bad} {
		content.Store(one)
		secret.read(context.Background())
		if !valid() {
			t.Error("the last document must stay valid")
		}
	}
	if age, has := secret.Age(time.Now().Add(time.Hour)); !has || age < time.Hour {
		t.Errorf("got %s", age)
	}
	revoked := document()
	content.Store(&revoked)
	secret.read(context.Background())
	if valid() {
		t.Error("a revoked key must end with the next document")
	}
}

func TestASecretWithoutAVersionHasNoKeysAndOneThatIsGoneKeepsThem(t *testing.T) {
	var content atomic.Pointer[[]byte]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		found := content.Load()
		if found == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprintf(w, `{"payload":{"data":%q}}`, base64.StdEncoding.EncodeToString(*found))
	}))
	defer server.Close()
	t.Setenv("SECRET_MANAGER_ENDPOINT", server.URL)
	secret := NewSecret("projects/p/secrets/s")
	valid := func() bool {
		_, _, ok := secret.Keys().Verify(keyOf("aaaaaaaa"), now)
		return ok
	}
	secret.read(context.Background())
	if secret.Keys() == nil || valid() {
		t.Fatal("before its first version a secret has no keys, which is known")
	}
	first := document(entry("aaaaaaaa", "research", "null"))
	content.Store(&first)
	secret.read(context.Background())
	if !valid() {
		t.Fatal("the first version must count")
	}
	content.Store(nil)
	secret.read(context.Background())
	if !valid() {
		t.Error("the last document must stay valid where the secret is gone")
	}
}

func TestTheTokenOfTheMetadataServerIsSentAndKept(t *testing.T) {
	var asked atomic.Int64
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Metadata-Flavor") != "Google" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		asked.Add(1)
		fmt.Fprint(w, `{"access_token":"t0","expires_in":3600,"token_type":"Bearer"}`)
	}))
	defer metadata.Close()
	google := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t0" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		fmt.Fprintf(w, `{"payload":{"data":%q}}`, base64.StdEncoding.EncodeToString(document()))
	}))
	defer google.Close()
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(metadata.URL, "http://"))
	t.Setenv("SECRET_MANAGER_ENDPOINT", strings.Replace(google.URL, "127.0.0.1", "localhost", 1))
	secret := NewSecret("projects/p/secrets/s")
	secret.read(context.Background())
	secret.read(context.Background())
	if secret.Keys() == nil || asked.Load() != 1 {
		t.Errorf("got %v after %d questions", secret.Keys(), asked.Load())
	}
}

type signer struct {
	key      *ecdsa.PrivateKey
	document []byte
	server   *httptest.Server
	reads    atomic.Int32
}

func newSigner(t *testing.T) *signer { return newSignerOf(t, "k1") }

func newSignerOf(t *testing.T, id string) *signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	number := func(n *big.Int) string { return base64.RawURLEncoding.EncodeToString(n.FillBytes(make([]byte, 32))) }
	answer, err := json.Marshal(map[string]any{"keys": []any{map[string]string{
		"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": id, "x": number(key.X), "y": number(key.Y),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	made := &signer{key: key, document: answer}
	made.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		made.reads.Add(1)
		_, _ = w.Write(answer)
	}))
	t.Cleanup(made.server.Close)
	return made
}

func (s *signer) token(t *testing.T, method jwt.SigningMethod, key any, change jwt.MapClaims) string {
	claims := jwt.MapClaims{"iss": "https://i", "aud": "us", "exp": now.Add(time.Hour).Unix(), "team": "r"}
	for name, value := range change {
		if value == nil {
			delete(claims, name)
		} else {
			claims[name] = value
		}
	}
	token := jwt.NewWithClaims(method, claims)
	token.Header["kid"] = "k1"
	signed, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func verifierOf(t *testing.T, c *config.Config) *Verifier {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	v := NewVerifier(NewSecret(""))
	v.Use(ctx, c)
	return v
}

func TestATokenIsOfATeamByItsClaim(t *testing.T) {
	s := newSigner(t)
	other := newSigner(t)
	c := &config.Config{JWT: []config.JWT{{Issuer: "https://i", Audiences: []string{"us"}, JWKSURI: s.server.URL,
		Header: "authorization", Claim: "team", Teams: map[string]string{"r": "research"}}}}
	v := verifierOf(t, c)
	es := jwt.SigningMethodES256
	none, _ := jwt.NewWithClaims(jwt.SigningMethodNone, jwt.MapClaims{"iss": "https://i", "aud": "us",
		"exp": now.Add(time.Hour).Unix(), "team": "r"}).SignedString(jwt.UnsafeAllowNoneSignatureType)
	for name, one := range map[string]struct {
		token string
		want  Verdict
	}{
		"valid":            {s.token(t, es, s.key, nil), Valid},
		"one of its teams": {s.token(t, es, s.key, jwt.MapClaims{"team": []string{"x", "r"}}), Valid},
		"expired":          {s.token(t, es, s.key, jwt.MapClaims{"exp": now.Add(-time.Minute).Unix()}), Invalid},
		"without end":      {s.token(t, es, s.key, jwt.MapClaims{"exp": nil}), Invalid},
		"not yet":          {s.token(t, es, s.key, jwt.MapClaims{"nbf": now.Add(time.Hour).Unix()}), Invalid},
		"other audience":   {s.token(t, es, s.key, jwt.MapClaims{"aud": "them"}), Invalid},
		"other issuer":     {s.token(t, es, s.key, jwt.MapClaims{"iss": "https://j"}), Invalid},
		"no team":          {s.token(t, es, s.key, jwt.MapClaims{"team": "x"}), Invalid},
		"no claim":         {s.token(t, es, s.key, jwt.MapClaims{"team": nil}), Invalid},
		"other key":        {s.token(t, es, other.key, nil), Invalid},
		"shared secret":    {s.token(t, jwt.SigningMethodHS256, []byte("k1"), nil), Invalid},
		"unsigned":         {none, Invalid},
		"not a token":      {"x", Invalid},
	} {
		caller, verdict := v.Verify(c, map[string][]string{"authorization": {"Bearer " + one.token}}, now)
		if verdict != one.want || (verdict == Valid && caller != Caller{"research", "jwt", ""}) {
			t.Errorf("%s: got %+v, %v", name, caller, verdict)
		}
	}
}

func TestTheSubjectOfATokenIsItsClaimUnlessThatIsTooLong(t *testing.T) {
	s := newSigner(t)
	c := &config.Config{JWT: []config.JWT{{Issuer: "https://i", Audiences: []string{"us"}, JWKSURI: s.server.URL,
		Header: "authorization", Claim: "team", Teams: map[string]string{"r": "research"}}}}
	v := verifierOf(t, c)
	longest := strings.Repeat("a", 255)
	for claim, want := range map[any]string{
		"accounts.google.com:1": "accounts.google.com:1",
		longest:                 longest,
		longest + "a":           "",
		7:                       "",
	} {
		token := s.token(t, jwt.SigningMethodES256, s.key, jwt.MapClaims{"sub": claim})
		caller, verdict := v.Verify(c, map[string][]string{"authorization": {"Bearer " + token}}, now)
		if verdict != Valid || caller.Subject != want {
			t.Errorf("%v: got %+v, %v", claim, caller, verdict)
		}
	}
}

func TestATokenOfOneIssuerDoesNotMakeAnotherOneReadItsKeys(t *testing.T) {
	first, second := newSigner(t), newSigner(t)
	made := func(name string, s *signer) config.JWT {
		return config.JWT{Issuer: name, Audiences: []string{"us"}, JWKSURI: s.server.URL,
			Header: "authorization", Claim: "team", Teams: map[string]string{"r": "research"}}
	}
	c := &config.Config{JWT: []config.JWT{made("https://i", first), made("https://j", second)}}
	v := verifierOf(t, c)
	before := first.reads.Load()
	claims := jwt.MapClaims{"iss": "https://j", "aud": "us", "exp": now.Add(time.Hour).Unix(), "team": "r"}
	token := jwt.NewWithClaims(jwt.SigningMethodES256, claims)
	for _, kid := range []string{"k1", "unknown"} {
		token.Header["kid"] = kid
		signed, err := token.SignedString(second.key)
		if err != nil {
			t.Fatal(err)
		}
		_, verdict := v.Verify(c, map[string][]string{"authorization": {"Bearer " + signed}}, now)
		if (verdict == Valid) != (kid == "k1") {
			t.Errorf("%s: got %v", kid, verdict)
		}
	}
	if read := first.reads.Load() - before; read != 0 {
		t.Errorf("the first issuer's keys were read %d times", read)
	}
	if second.reads.Load() < 2 {
		t.Error("the second issuer's keys were not read for an unknown key")
	}
}

func TestAProxysTokenHasAHeaderOfItsOwn(t *testing.T) {
	s := newSigner(t)
	c := &config.Config{JWT: []config.JWT{{Issuer: "https://i", Audiences: []string{"us"}, JWKSURI: s.server.URL,
		Header: "x-goog-iap-jwt-assertion", Claim: "team", Teams: map[string]string{"r": "research"}}}}
	v := verifierOf(t, c)
	token := s.token(t, jwt.SigningMethodES256, s.key, nil)
	if _, verdict := v.Verify(c, map[string][]string{"x-goog-iap-jwt-assertion": {token}}, now); verdict != Valid {
		t.Errorf("got %v", verdict)
	}
	if _, verdict := v.Verify(c, map[string][]string{"authorization": {"Bearer " + token}}, now); verdict != Invalid {
		t.Errorf("got %v", verdict)
	}
}

func TestTheKeysOfIdentityAwareProxyCanComeFromAnotherAddress(t *testing.T) {
	s := newSigner(t)
	t.Setenv("IAP_KEYS", s.server.URL)
	header, team := "x-goog-iap-jwt-assertion", map[string]string{"https://i": "research"}
	c := &config.Config{JWT: []config.JWT{{Issuer: "https://i", Audiences: []string{"us"}, JWKSURI: iapKeys,
		Header: header, Claim: "iss", Teams: team}}}
	v := verifierOf(t, c)
	token := s.token(t, jwt.SigningMethodES256, s.key, nil)
	caller, verdict := v.Verify(c, map[string][]string{header: {token}}, now)
	if verdict != Valid || caller.Team != "research" {
		t.Errorf("got %v, %v", caller, verdict)
	}
}

func TestAWrongCredentialIsNeverTakenForNone(t *testing.T) {
	secret := NewSecret("projects/p/secrets/s")
	v := NewVerifier(secret)
	c := &config.Config{Keys: config.Keys{Secret: "projects/p/secrets/s"}}
	key := keyOf("aaaaaaaa")
	headers := func(name string, values ...string) map[string][]string { return map[string][]string{name: values} }
	if _, verdict := v.Verify(c, headers("x-api-key", key), now); verdict != Unknown {
		t.Errorf("before the keys were read: got %v", verdict)
	}
	keys, err := ParseKeys(document(entry("aaaaaaaa", "research", "null")))
	if err != nil {
		t.Fatal(err)
	}
	secret.keys.Store(keys)
	for _, anonymous := range []bool{false, true} {
		c.Anonymous = anonymous
		nobody := Missing
		if anonymous {
			nobody = Valid
		}
		for number, one := range []struct {
			headers map[string][]string
			want    Verdict
		}{
			{headers("authorization", "Bearer "+key), Valid},
			{headers("authorization", "bearer  "+key), Valid},
			{headers("x-api-key", key), Valid},
			{map[string][]string{"authorization": {"Bearer " + key}, "x-api-key": {key}}, Valid},
			{map[string][]string{"authorization": {"Bearer " + key}, "x-api-key": {"other"}}, Invalid},
			{headers("authorization", "Bearer "+key, "Bearer "+key), Invalid},
			{headers("authorization", key), Invalid},
			{headers("authorization", "Basic "+key), Invalid},
			{headers("authorization", ""), Invalid},
			{headers("authorization", "Bearer sk-other"), Invalid},
			{headers("x-api-key", keyOf("zzzzzzzz")), Invalid},
			{headers("x-request-id", "1"), nobody},
		} {
			if _, verdict := v.Verify(c, one.headers, now); verdict != one.want {
				t.Errorf("%d, anonymous %v: got %v, want %v", number, anonymous, verdict, one.want)
			}
		}
	}
}
