package extproc

import (
	"net/http"
	"testing"
)

func TestOnlyWhatClientsCallPasses(t *testing.T) {
	for _, each := range []struct {
		method, path string
		kind         requestKind
		status       int
	}{
		{http.MethodPost, "/v1/chat/completions", prompt, 0},
		{http.MethodGet, "/v1/chat/completions", prompt, 405},
		{http.MethodGet, "/v1/models", modelList, 0},
		{http.MethodGet, "/search/v1/models", modelList, 0},
		{http.MethodGet, "/search/ads/v1/models", prompt, 404},
		{http.MethodGet, "/v1/models/llama", oneModel, 0},
		{http.MethodPost, "/v1/load_lora_adapter", prompt, 404},
		{http.MethodGet, "/metrics", prompt, 404},
	} {
		kind, fault := kindOf(each.method, each.path)
		status := 0
		if fault != nil {
			status = fault.Status
		}
		if kind != each.kind || status != each.status {
			t.Errorf("%s %s: got kind %v and status %d", each.method, each.path, kind, status)
		}
	}
}
