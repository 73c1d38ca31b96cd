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
		{http.MethodPost, "/v1/images/edits", prompt, 0},
		{http.MethodGet, "/v1/images/edits", prompt, 405},
		{http.MethodPost, "/v1/images/variations", prompt, 404},
		{http.MethodPost, "/v1/videos/sync", prompt, 0},
		{http.MethodPost, "/v1/videos", prompt, 404},
		{http.MethodGet, "/v1/models", modelList, 0},
		{http.MethodGet, "/search/v1/models", modelList, 0},
		{http.MethodGet, "/search/ads/v1/models", prompt, 404},
		{http.MethodGet, "/v1/models/llama", oneModel, 0},
		{http.MethodPost, "/v1/load_lora_adapter", prompt, 404},
		{http.MethodGet, "/metrics", prompt, 404},
	} {
		kind, fault := kindOf(each.method, each.path, false)
		status := 0
		if fault != nil {
			status = fault.Status
		}
		if kind != each.kind || status != each.status {
			t.Errorf("%s %s: got kind %v and status %d", each.method, each.path, kind, status)
		}
	}
}

func TestFilesAndBatchesPassWhereThereAreSome(t *testing.T) {
	for _, each := range []struct {
		method, path string
		status       int
	}{
		{http.MethodPost, "/v1/files", 0},
		{http.MethodGet, "/v1/files/file-1/content", 0},
		{http.MethodDelete, "/v1/files/file-1", 0},
		{http.MethodPost, "/v1/batches/batch_1/cancel", 0},
		{http.MethodPut, "/v1/files", 405},
		{http.MethodPost, "/v1/files/../chat/completions", 404},
		{http.MethodPost, "/v1/files/%2e%2e/load_lora_adapter", 404},
		{http.MethodPost, "/v1/files//load_lora_adapter", 404},
		{http.MethodGet, "/v1/filesystem", 404},
		{http.MethodGet, "/v1/batches/batch_1/content", 404},
	} {
		kind, fault := kindOf(each.method, each.path, true)
		status := 0
		if fault != nil {
			status = fault.Status
		}
		if status != each.status || (status == 0 && kind != stored) {
			t.Errorf("%s %s: got kind %v and status %d", each.method, each.path, kind, status)
		}
	}
	if _, fault := kindOf(http.MethodPost, "/v1/files", false); fault == nil || fault.Status != 404 {
		t.Errorf("without batches: got %v", fault)
	}
}
