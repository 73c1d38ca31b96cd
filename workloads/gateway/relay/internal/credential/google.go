package credential

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"golang.org/x/oauth2"

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
	body, err := json.Marshal(map[string]any{"audience": auth.Audience, "includeEmail": true})
	if err != nil {
		return "", err
	}
	if err := s.call(ctx, http.MethodPost, url, body, &answer); err != nil {
		return "", err
	}
	if answer.Token == "" {
		return "", fmt.Errorf("POST %s: no token in the response", url)
	}
	return answer.Token, nil
}

// call calls a Google API. An error contains the address and the status, never a body.
func (s *Store) call(ctx context.Context, method, url string, body []byte, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s %s: no address", method, url)
	}
	token, err := s.accessToken()
	if err != nil {
		return err
	}
	token.SetAuthHeader(request)
	request.Header.Set("Content-Type", "application/json")
	answer, err := s.client.Do(request)
	if err != nil {
		return fmt.Errorf("%s %s: no response", method, url)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(io.LimitReader(answer.Body, largestAnswer))
	if err != nil {
		return fmt.Errorf("%s %s: the response is incomplete", method, url)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: status %d", method, url, answer.StatusCode)
	}
	if json.Unmarshal(content, into) != nil {
		return fmt.Errorf("%s %s: must return the expected JSON", method, url)
	}
	return nil
}
