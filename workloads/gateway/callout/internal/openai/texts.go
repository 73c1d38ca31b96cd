package openai

// CanCheckStream reports whether a stream of a path can be checked while it arrives.
func CanCheckStream(path string) bool {
	return path == "/v1/chat/completions" || path == "/v1/completions"
}
