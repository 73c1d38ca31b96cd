package guard

import (
	"context"
	"errors"
	"net/http"

	"gke-inference/gateway/callout/internal/config"
	"gke-inference/gateway/internal/web"
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
func NewClient() *Client { return &Client{web.Pooled(idleConns)} }

// check returns the verdict of a guard. Its errors never quote a text: they mean that the guard is
// unavailable, timed out, or returned something other than a verdict.
func (c *Client) check(ctx context.Context, guard config.Guard, asked question) (verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, guard.Timeout())
	defer cancel()
	request, err := web.Request(ctx, http.MethodPost, guard.URL+"/v1/check", asked)
	if err != nil {
		return verdict{}, err
	}
	var found verdict
	if err := web.Call(c.http, request, maxAnswerBytes, &found); err != nil {
		return verdict{}, err
	}
	isReplaced := found.Action == replaced && len(found.Messages) == len(asked.Messages)
	if found.Action != allowed && found.Action != blocked && !isReplaced {
		return verdict{}, errors.New("the response is not a verdict")
	}
	return found, nil
}
