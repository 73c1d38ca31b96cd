package cache

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"

	"gke-inference/gateway/callout/internal/config"
	"gke-inference/gateway/internal/web"
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
	return &embedder{url: settings.URL, model: settings.Model, client: web.Pooled(idleConnections)}
}

// embed returns the embedding of a text, normalized to length 1.
func (e *embedder) embed(ctx context.Context, text string) ([]float32, error) {
	asked := map[string]any{"model": e.model, "input": text, "encoding_format": "float"}
	request, err := web.Request(ctx, http.MethodPost, e.url+"/v1/embeddings", asked)
	if err != nil {
		return nil, err
	}
	var found struct {
		Data []struct {
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := web.Call(e.client, request, maxEmbeddingBytes, &found); err != nil {
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
