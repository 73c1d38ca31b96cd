// Package paths has the paths of the APIs that engines serve.
package paths

import (
	"regexp"
	"strings"
)

// Paths of OpenAI's API, and those of Anthropic's messages and of vLLM's scores, images and videos.
const (
	Chats       = "/v1/chat/completions"
	Completions = "/v1/completions"
	Embeddings  = "/v1/embeddings"
	Responses   = "/v1/responses"
	Messages    = "/v1/messages"
	// CountTokens counts the tokens of a prompt of Messages, and generates nothing.
	CountTokens = "/v1/messages/count_tokens"
	Rerank      = "/v1/rerank"
	Score       = "/v1/score"
	Images      = "/v1/images/generations"
	// Edits changes images. Its body is JSON, or a form with the images.
	Edits = "/v1/images/edits"
	// Videos generates a video.
	Videos = "/v1/videos/sync"
)

// prompts are the paths on which an engine serves the model that the body names.
var prompts = map[string]bool{
	Chats: true, Completions: true, Embeddings: true, Responses: true, Messages: true, CountTokens: true,
	Rerank: true, Score: true, Images: true, Edits: true, Videos: true,
}

// IsText reports whether a model that generates text answers the requests to a path, or counts their tokens.
func IsText(path string) bool {
	switch path {
	case Chats, Completions, Responses, Messages, CountTokens:
		return true
	}
	return false
}

// IsMessages reports whether a path is of Anthropic's Messages API, whose errors have another form.
func IsMessages(path string) bool { return path == Messages || strings.HasPrefix(path, Messages+"/") }

// asChat is a query that nothing but a picker reads.
const asChat = "?picked-as=" + Chats

// Picked returns the path by which a picker reads the body of a request. The picker of
// gateway-api-inference-extension v1.5.0 takes every path with another end than those of OpenAI's API for a
// completion, and refuses a body without `prompt` (pkg/epp/framework/plugins/requesthandling/parsers/openai). It
// looks at the end of the whole path, with its query, so that a query makes messages a chat, which they are for it:
// a list with roles and contents. llm-d-router has a parser for messages, and reads no query
// (pkg/epp/framework/common/request, GetRequestPath).
func Picked(path string) string {
	if path == Messages || path == CountTokens {
		return path + asChat
	}
	return path
}

// predictive are the paths of one model in the Open Inference Protocol that clients may call. They have only
// one spelling. Others of Triton load models, register memory or change what it traces.
var predictive = regexp.MustCompile(`^/v2/models/([A-Za-z0-9][A-Za-z0-9._:-]*)(/(infer|ready|config))?$`)

// IsInference reports whether a path is of the Open Inference Protocol, whose errors have another form.
func IsInference(path string) bool { return strings.HasPrefix(path, "/v2/") }

// Predictive returns the model that a path of the Open Inference Protocol names, and whether the path
// computes its answer; isOne is whether it is such a path.
func Predictive(path string) (model string, infers, isOne bool) {
	found := predictive.FindStringSubmatch(path)
	if found == nil {
		return "", false, false
	}
	return found[1], found[3] == "infer", true
}

// service is the prefix of the gRPC calls of the Open Inference Protocol.
const service = "/inference.GRPCInferenceService/"

// calls are those that clients may make, and whether their message names a model. Others of Triton load models,
// register memory or change what it traces, and a stream could name another model with each message.
var calls = map[string]bool{
	"ServerLive": false, "ServerReady": false,
	"ModelReady": true, "ModelMetadata": true, "ModelConfig": true, "ModelInfer": true,
}

// IsCall reports whether a path is of the Open Inference Protocol over gRPC.
func IsCall(path string) bool { return strings.HasPrefix(path, service) }

// Call returns whether the message of a gRPC call names its model; isOne is whether clients may make the call.
func Call(path string) (hasModel, isOne bool) {
	name, isCall := strings.CutPrefix(path, service)
	if !isCall {
		return false, false
	}
	hasModel, isOne = calls[name]
	return hasModel, isOne
}

// IsPrompt reports whether an engine serves the model that the body names.
func IsPrompt(path string) bool { return prompts[path] }
