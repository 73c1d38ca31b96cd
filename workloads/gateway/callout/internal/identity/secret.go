package identity

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gke-inference/gateway/internal/web"
)

const (
	// ReadInterval is how often the newest version of the secret is read, and so how long a revoked key
	// stays valid.
	ReadInterval    = 2 * time.Second
	readTimeout     = 5 * time.Second
	maxSecretBytes  = 1 << 20
	googleEndpoint  = "https://secretmanager.googleapis.com"
	defaultMetadata = "metadata.google.internal"
	tokenMargin     = time.Minute
)

// Secret follows the document of keys in Secret Manager. If the service is unavailable, the last
// document stays valid.
type Secret struct {
	endpoint string
	metadata string
	client   *http.Client
	keys     atomic.Pointer[Keys]
	readAt   atomic.Int64

	mu      sync.Mutex
	name    string
	token   string
	expires time.Time
	failing bool
}

// NewSecret returns a follower of the secret projects/P/secrets/S. An empty name means no secret.
func NewSecret(name string) *Secret {
	return &Secret{
		endpoint: strings.TrimSuffix(fromEnv("SECRET_MANAGER_ENDPOINT", googleEndpoint), "/"),
		metadata: fromEnv("GCE_METADATA_HOST", defaultMetadata),
		client:   &http.Client{Timeout: readTimeout},
		name:     name,
	}
}

func fromEnv(name, fallback string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return fallback
}

// Rename switches to another secret.
func (s *Secret) Rename(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.name == name {
		return
	}
	s.name = name
	s.keys.Store(nil)
	s.readAt.Store(0)
}

// Keys returns the last document, or nil if none was read yet.
func (s *Secret) Keys() *Keys { return s.keys.Load() }

// Age returns the time since the document was read, and false if none was read.
func (s *Secret) Age(now time.Time) (time.Duration, bool) {
	at := s.readAt.Load()
	if at == 0 {
		return 0, false
	}
	return now.Sub(time.Unix(0, at)), true
}

// Follow reads the secret until the context ends.
func (s *Secret) Follow(ctx context.Context) {
	ticker := time.NewTicker(ReadInterval)
	defer ticker.Stop()
	for {
		s.read(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (s *Secret) read(ctx context.Context) {
	s.mu.Lock()
	name := s.name
	s.mu.Unlock()
	if name == "" {
		return
	}
	keys, err := s.fetch(ctx, name)
	if web.Is(err, http.StatusNotFound) && s.Keys() == nil {
		// There is no secret before the first key. If there were keys, a missing secret is a mistake:
		// they stay valid.
		keys, err = &Keys{}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && name == s.name {
		s.keys.Store(keys)
		s.readAt.Store(time.Now().UnixNano())
	}
	if isFailing := err != nil; isFailing != s.failing && ctx.Err() == nil {
		s.failing = isFailing
		if isFailing {
			slog.Error("keys not read, the last document stays valid", "secret", name, "error", err.Error())
		} else {
			slog.Info("keys available again", "secret", name)
		}
	}
}

func (s *Secret) fetch(ctx context.Context, name string) (*Keys, error) {
	headers := map[string]string{}
	if !strings.HasPrefix(s.endpoint, "http://127.") {
		token, err := s.accessToken(ctx)
		if err != nil {
			return nil, err
		}
		headers["Authorization"] = "Bearer " + token
	}
	var answer struct {
		Payload struct {
			Data string `json:"data"`
		} `json:"payload"`
	}
	url := s.endpoint + "/v1/" + name + "/versions/latest:access"
	if err := s.get(ctx, url, headers, &answer); err != nil {
		return nil, err
	}
	content, err := base64.StdEncoding.DecodeString(answer.Payload.Data)
	if err != nil {
		return nil, fmt.Errorf("payload.data: must be base64")
	}
	return ParseKeys(content)
}

func (s *Secret) accessToken(ctx context.Context) (string, error) {
	if s.token != "" && time.Now().Before(s.expires) {
		return s.token, nil
	}
	var answer struct {
		AccessToken string  `json:"access_token"`
		ExpiresIn   float64 `json:"expires_in"`
	}
	url := "http://" + s.metadata + "/computeMetadata/v1/instance/service-accounts/default/token"
	if err := s.get(ctx, url, map[string]string{"Metadata-Flavor": "Google"}, &answer); err != nil {
		return "", err
	}
	s.token = answer.AccessToken
	s.expires = time.Now().Add(time.Duration(answer.ExpiresIn*float64(time.Second)) - tokenMargin)
	return s.token, nil
}

func (s *Secret) get(ctx context.Context, url string, headers map[string]string, into any) error {
	request, err := web.Request(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	for header, value := range headers {
		request.Header.Set(header, value)
	}
	return web.Call(s.client, request, maxSecretBytes, into)
}
