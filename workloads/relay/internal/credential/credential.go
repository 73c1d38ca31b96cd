// Package credential gets what targets know the platform by: API keys out of Secret Manager, Google's
// access tokens, and ID tokens. Nothing here writes a credential anywhere.
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

	"gke-inference/relay/internal/config"
)

const (
	scope           = "https://www.googleapis.com/auth/cloud-platform"
	secretsEndpoint = "https://secretmanager.googleapis.com"
	tokensEndpoint  = "https://iamcredentials.googleapis.com"
	callTimeout     = 5 * time.Second
	// SecretAge is how long a key is used before its secret is read again: a rotated key needs an
	// overlap of so much.
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

// value is a credential: it is renewed beside its use after soft, and not used after hard.
type value struct {
	text       string
	soft, hard time.Time
}

type reader func(context.Context) (value, error)

type entry struct {
	mu    sync.Mutex
	value value
	// isRefused is set where a target did not take the value: it is read again before its next use.
	isRefused bool
	isReading bool
	// tried is when the last reading began, so that a source that fails is not asked for each request.
	tried time.Time
	err   error
}

const retryAfter = time.Second

// NewStore returns a store. Google's addresses come from the environment where it has them.
func NewStore() *Store {
	return &Store{
		secrets: fromEnv("SECRET_MANAGER_ENDPOINT", secretsEndpoint),
		tokens:  fromEnv("IAM_CREDENTIALS_ENDPOINT", tokensEndpoint),
		client:  &http.Client{Timeout: callTimeout},
		google:  google.ComputeTokenSource("", scope),
		known:   map[config.Auth]*entry{},
	}
}

// fromEnv returns an address of Google's, or one of this machine in its place: whoever can change an
// environment must not be able to send the pod's token elsewhere.
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

// Header returns the value of `Authorization` for a target; empty where it takes none.
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

// Forget makes the next request read a credential again: the target refused it.
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

// get returns the value. Requests wait for the first reading and after a refusal, and not for a renewal; a
// value that cannot be read again stays.
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
		if ctx.Err() != nil { // a client that goes away says nothing about the source
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
	slog.Warn("credential not renewed, the old one stays", "error", err.Error())
}

// never is the end of what has none.
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
		// the source keeps the token itself, until shortly before its end
		return value{token.AccessToken, now.Add(time.Minute), hard}, nil
	case config.AuthIDToken:
		text, err := s.idToken(ctx, auth)
		// an ID token lives for an hour
		return value{text, now.Add(30 * time.Minute), now.Add(55 * time.Minute)}, err
	}
	return value{}, fmt.Errorf("no credential of kind %q", auth.Kind)
}
