package credential

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/oauth2"

	"gke-inference/gateway/internal/web"
	"gke-inference/gateway/relay/internal/config"
)

const (
	largestSecret = 64 << 10
	largestAnswer = 1 << 20
)

// accessToken returns a token for the pod's identity, from GKE's metadata server.
func (s *Store) accessToken() (*oauth2.Token, error) {
	token, err := s.google.Token()
	if err != nil {
		// the library's error can contain the body of a response
		return nil, errors.New("the metadata server returned no access token")
	}
	return token, nil
}

// secret returns the newest version of a secret, without the trailing newline.
func (s *Store) secret(ctx context.Context, name string) (string, error) {
	var answer struct {
		Payload struct {
			Data string `json:"data"`
		} `json:"payload"`
	}
	url := s.secrets + "/v1/" + name + "/versions/latest:access"
	if err := s.call(ctx, http.MethodGet, url, nil, &answer); err != nil {
		return "", err
	}
	content, err := base64.StdEncoding.DecodeString(answer.Payload.Data)
	value := strings.TrimSpace(string(content))
	if err != nil || value == "" || len(value) > largestSecret || strings.ContainsAny(value, "\r\n\x00") {
		return "", fmt.Errorf("%s: must have one line with the key", name)
	}
	return value, nil
}

// idToken returns a token that identifies a service account to one service. GKE's metadata server
// creates ID tokens only for identities with a service account, so the token comes from IAM.
func (s *Store) idToken(ctx context.Context, auth config.Auth) (string, error) {
	var answer struct {
		Token string `json:"token"`
	}
	url := s.tokens + "/v1/projects/-/serviceAccounts/" + auth.ServiceAccount + ":generateIdToken"
	body := map[string]any{"audience": auth.Audience, "includeEmail": true}
	if err := s.call(ctx, http.MethodPost, url, body, &answer); err != nil {
		return "", err
	}
	if answer.Token == "" {
		return "", fmt.Errorf("POST %s: no token in the response", url)
	}
	return answer.Token, nil
}

// call calls a Google API with the pod's identity. The body may be nil.
func (s *Store) call(ctx context.Context, method, url string, body, into any) error {
	request, err := web.Request(ctx, method, url, body)
	if err != nil {
		return err
	}
	token, err := s.accessToken()
	if err != nil {
		return err
	}
	token.SetAuthHeader(request)
	return web.Call(s.client, request, largestAnswer, into)
}
