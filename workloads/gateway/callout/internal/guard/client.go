package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"gke-inference/gateway/callout/internal/config"
)

const (
	maxAnswerBytes = 64 << 20
	idleConns      = 64
)

type question struct {
	Phase    string `json:"phase"`
	Model    string `json:"model"`
	Team     string `json:"team"`
	Messages []Text `json:"messages"`
}

type verdict struct {
	Action   string `json:"action"`
	Message  string `json:"message"`
	Messages []Text `json:"messages"`
}

// Client sends texts to guards.
type Client struct{ http *http.Client }

// NewClient returns a client.
func NewClient() *Client {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: idleConns, IdleConnTimeout: time.Minute,
	}
	return &Client{&http.Client{Transport: transport}}
}

// check returns the verdict of a guard. Its errors never quote a text: they mean that the guard is
// unavailable, timed out, or returned something other than a verdict.
func (c *Client) check(ctx context.Context, guard config.Guard, asked question) (verdict, error) {
	body, err := json.Marshal(asked)
	if err != nil {
		return verdict{}, errors.New("the texts are not valid text")
	}
	ctx, cancel := context.WithTimeout(ctx, guard.Timeout())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, guard.URL+"/v1/check", bytes.NewReader(body))
	if err != nil {
		return verdict{}, err
	}
	request.Header.Set("content-type", "application/json")
	answer, err := c.http.Do(request)
	if err != nil {
		return verdict{}, err
	}
	defer answer.Body.Close() //nolint:errcheck // the body has been read
	content, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswerBytes))
	if err != nil {
		return verdict{}, err
	}
	if answer.StatusCode != http.StatusOK {
		return verdict{}, fmt.Errorf("the guard returned status %d", answer.StatusCode)
	}
	var found verdict
	if json.Unmarshal(content, &found) != nil {
		return verdict{}, errors.New("the response is not a verdict")
	}
	isReplaced := found.Action == replaced && len(found.Messages) == len(asked.Messages)
	if found.Action != allowed && found.Action != blocked && !isReplaced {
		return verdict{}, errors.New("the response is not a verdict")
	}
	return found, nil
}
