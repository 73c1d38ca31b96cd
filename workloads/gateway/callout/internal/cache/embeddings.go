package cache

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"gke-inference/gateway/callout/internal/config"
)

const (
	maxEmbeddingBytes = 1 << 20
	idleConnections   = 64
)

// embedder requests embeddings of questions from a model of the stack.
type embedder struct {
	url, model string
	client     *http.Client
}

func newEmbedder(settings config.Embeddings) *embedder {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: idleConnections,
		MaxIdleConns: idleConnections, IdleConnTimeout: time.Minute,
	}
	return &embedder{url: settings.URL, model: settings.Model, client: &http.Client{Transport: transport}}
}

// embed returns the embedding of a text, normalized to length 1.
func (e *embedder) embed(ctx context.Context, text string) ([]float32, error) {
	asked, err := json.Marshal(map[string]any{"model": e.model, "input": text, "encoding_format": "float"})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+"/v1/embeddings", bytes.NewReader(asked))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := e.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(io.LimitReader(answer.Body, maxEmbeddingBytes))
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s returned status %d", e.url, answer.StatusCode)
	}
	var found struct {
		Data []struct {
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(content, &found); err != nil {
		return nil, err
	}
	if len(found.Data) != 1 {
		return nil, fmt.Errorf("%s: must return one embedding, got %d", e.url, len(found.Data))
	}
	return unit(found.Data[0].Embedding)
}

func unit(vector []float32) ([]float32, error) {
	sum := 0.0
	for _, value := range vector {
		sum += float64(value) * float64(value)
	}
	if sum == 0 || math.IsNaN(sum) || math.IsInf(sum, 0) {
		return nil, errors.New("the embedding must not be a zero vector")
	}
	length := float32(math.Sqrt(sum))
	for at := range vector {
		vector[at] /= length
	}
	return vector, nil
}
