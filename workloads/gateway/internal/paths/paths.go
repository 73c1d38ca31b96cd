// Package paths has the paths of the API that engines serve.
package paths

// Edits changes images. Its body is JSON, or a form with the images.
const Edits = "/v1/images/edits"

// Videos generates a video.
const Videos = "/v1/videos/sync"

// prompts are the paths on which an engine serves the model that the body names.
var prompts = map[string]bool{
	"/v1/chat/completions":   true,
	"/v1/completions":        true,
	"/v1/embeddings":         true,
	"/v1/responses":          true,
	"/v1/messages":           true,
	"/v1/rerank":             true,
	"/v1/score":              true,
	"/v1/images/generations": true,
	Edits:                    true,
	Videos:                   true,
}

// IsPrompt reports whether an engine serves the model that the body names.
func IsPrompt(path string) bool { return prompts[path] }
