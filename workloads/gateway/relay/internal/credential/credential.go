// Package credential obtains the credentials for targets: API keys from Secret Manager, Google access
// tokens, and ID tokens. It never writes a credential anywhere.
package credential

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"gke-inference/gateway/relay/internal/config"
)

const (
	scope           = "https://www.googleapis.com/auth/cloud-platform"
	secretsEndpoint = "https://secretmanager.googleapis.com"
	tokensEndpoint  = "https://iamcredentials.googleapis.com"
	callTimeout     = 5 * time.Second
	// SecretAge is how long a key is used before its secret is read again. During a rotation, the old
	// key must stay valid for this time.
	SecretAge = 30 * time.Second
)

// Store has the credentials of all targets.
type Store struct {
	secrets string
	tokens  string
	client  *http.Client
	google  oauth2.TokenSource

	mu    sync.Mutex
	known map[config.Auth]*entry
}

// value is a credential. After soft, it is renewed in the background; after hard, it is not used.
type value struct {
	text       string
	soft, hard time.Time
}

type reader func(context.Context) (value, error)

type entry struct {
	mu    sync.Mutex
	value value
	// isRefused is set if the target refused the value. The value is read again before its next use.
	isRefused bool
	isReading bool
	// tried is the start of the last attempt, so that a failing source is not called for each request.
	tried time.Time
	err   error
}

const retryAfter = time.Second

// NewStore returns a store. The environment can replace the addresses of Google's services.
func NewStore() *Store {
	return &Store{
		secrets: fromEnv("SECRET_MANAGER_ENDPOINT", secretsEndpoint),
		tokens:  fromEnv("IAM_CREDENTIALS_ENDPOINT", tokensEndpoint),
		client:  &http.Client{Timeout: callTimeout},
		google:  google.ComputeTokenSource("", scope),
		known:   map[config.Auth]*entry{},
	}
}

// fromEnv returns the address of a Google service, or a replacement on this machine. Other addresses
// are refused, so that the environment cannot redirect the pod's token.
func fromEnv(name, fallback string) string {
	value := strings.TrimSuffix(os.Getenv(name), "/")
	if at, err := url.Parse(value); value != "" && err == nil && (config.IsLoopback(at) || isGoogles(at)) {
		return value
	}
	return fallback
}

func isGoogles(at *url.URL) bool {
	return at.Scheme == "https" && strings.HasSuffix(at.Hostname(), ".googleapis.com")
}

// Header returns the value of `Authorization` for a target; empty if it needs none.
func (s *Store) Header(ctx context.Context, auth config.Auth) (string, error) {
	if auth.Kind == config.AuthNone {
		return "", nil
	}
	s.mu.Lock()
	found, has := s.known[auth]
	if !has {
		found = &entry{}
		s.known[auth] = found
	}
	s.mu.Unlock()
	text, err := found.get(ctx, func(ctx context.Context) (value, error) { return s.read(ctx, auth) })
	if err != nil {
		return "", err
	}
	return "Bearer " + text, nil
}

// Forget marks a credential as refused by the target, so that the next request reads it again.
func (s *Store) Forget(auth config.Auth) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, has := s.known[auth]; has {
		found.refuse()
	}
}

func (e *entry) refuse() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.isRefused = true
}

// get returns the value. Requests wait for the first read and after a refusal, but not for a renewal.
// If a renewal fails, the value stays in use.
func (e *entry) get(ctx context.Context, read reader) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	isValid := e.value.text != "" && now.Before(e.value.hard) && !e.isRefused
	if isValid && now.Before(e.value.soft) {
		return e.value.text, nil
	}
	isDue := now.Sub(e.tried) >= retryAfter && !e.isReading
	if isValid {
		if isDue {
			e.tried, e.isReading = now, true
			go e.renew(read)
		}
		return e.value.text, nil
	}
	if isDue {
		e.tried = now
		found, err := read(ctx)
		if err == nil {
			e.value, e.isRefused, e.err = found, false, nil
			return found.text, nil
		}
		if ctx.Err() != nil { // a canceled request is not a failure of the source
			e.tried = time.Time{}
			return "", ctx.Err()
		}
		e.err = err
	}
	if e.value.text != "" {
		return e.value.text, nil
	}
	if e.err == nil {
		return "", errors.New("the credential is being read")
	}
	return "", e.err
}

func (e *entry) renew(read reader) {
	ctx, done := context.WithTimeout(context.Background(), callTimeout)
	defer done()
	found, err := read(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.isReading = false
	if err == nil {
		e.value, e.isRefused = found, false
		return
	}
	e.err = err
	slog.Warn("credential not renewed, the previous one stays in use", "error", err.Error())
}

// never is the expiry time of credentials that do not expire.
var never = time.Now().AddDate(100, 0, 0)

func (s *Store) read(ctx context.Context, auth config.Auth) (value, error) {
	now := time.Now()
	switch auth.Kind {
	case config.AuthSecret:
		text, err := s.secret(ctx, auth.Secret)
		return value{text, now.Add(SecretAge), never}, err
	case config.AuthGoogle:
		token, err := s.accessToken()
		if err != nil {
			return value{}, err
		}
		hard := never
		if !token.Expiry.IsZero() {
			hard = token.Expiry
		}
		// the source caches the token itself until shortly before it expires
		return value{token.AccessToken, now.Add(time.Minute), hard}, nil
	case config.AuthIDToken:
		text, err := s.idToken(ctx, auth)
		// an ID token is valid for one hour
		return value{text, now.Add(30 * time.Minute), now.Add(55 * time.Minute)}, err
	}
	return value{}, fmt.Errorf("no credential of kind %q", auth.Kind)
}
