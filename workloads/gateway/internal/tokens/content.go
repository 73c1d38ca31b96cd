package tokens

import (
	"gke-inference/gateway/internal/jsonwalk"
	"gke-inference/gateway/internal/paths"
)

// limits reports whether engines read a field as the limit of an answer on a path.
func limits(path, name string) bool {
	switch path {
	case paths.Chats:
		return name != "max_output_tokens"
	case paths.Responses:
		return name == "max_output_tokens"
	default:
		return name == "max_tokens"
	}
}

// content reads a field that can be part of a prompt.
func (r *reader) content(name string) {
	switch r.path {
	case paths.Completions:
		switch name {
		case "prompt":
			r.listed()
			return
		case "prompt_embeds":
			r.embeds()
			return
		case "suffix":
			r.suffix()
			return
		}
	case paths.Embeddings:
		switch name {
		case "input":
			r.listed()
			return
		case "messages":
			span, media := r.scanned()
			one := textPrompt(int64(span.Len()) - media)
			one.most += templateTokens
			r.prompts = append(r.prompts, one)
			return
		}
	case paths.Rerank, paths.Score:
		switch name {
		case "query", "text_1", "queries", "data_1":
			r.side(&r.first)
			return
		case "documents", "text_2", "items", "data_2":
			r.side(&r.second)
			return
		}
	case paths.Edits:
		if name == "images" || name == "mask" {
			r.media += int64(r.Skip().Len()) // no part of the prompt
			return
		}
	case paths.Images, paths.Videos:
	default:
		r.chatField(name)
		return
	}
	r.Skip()
}

// chatField reads a field of a chat, a response or a message.
func (r *reader) chatField(name string) {
	switch name {
	case "messages", "input", "system":
		_, media := r.scanned()
		r.media += media
	case "tools", "functions":
		r.toolBytes += int64(r.Skip().Len()) // templates write them with more white space than clients
	case "chat_template", "previous_response_id", "previous_response":
		// a text of any length can come from these
		r.fills = string(r.Raw(r.Skip())) != "null" || r.fills
	default:
		r.Skip()
	}
}

func (r *reader) chat(bytes int64) {
	text := bytes - r.media
	r.prompts = []prompt{{1, text + r.toolBytes + templateTokens, text / bytesPerPromptToken}}
}

// listed reads one or several prompts, each as a text or as token IDs.
func (r *reader) listed() {
	switch r.Kind() {
	case '"':
		r.text()
	case '[':
		ids := int64(0)
		r.List(func(int) {
			switch r.Kind() {
			case '"':
				r.text()
			case '[':
				count := r.ids()
				r.hasOthers = true
				r.prompts = append(r.prompts, prompt{count, count, count})
			default:
				r.Skip()
				ids++
			}
		})
		if ids > 0 {
			r.hasOthers = true
			r.prompts = append(r.prompts, prompt{ids, ids, ids})
		}
	default:
		r.Skip()
	}
}

func (r *reader) ids() (count int64) {
	r.List(func(int) {
		r.Skip()
		count++
	})
	return count
}

func (r *reader) text() {
	r.prompts = append(r.prompts, textPrompt(int64(len(r.Text(r.Skip())))))
}

// textPrompt returns the bounds of a text: no tokenizer makes more tokens than it has bytes, besides
// the special ones.
func textPrompt(bytes int64) prompt {
	return prompt{1, bytes + specialTokens, bytes / bytesPerPromptToken}
}

// embeds reads prompts that are vectors: the number of tokens of each is not known.
func (r *reader) embeds() {
	count := int64(1)
	switch r.Kind() {
	case '[':
		count = r.ids()
	case 'n':
		count = 0
		r.Skip()
	default:
		r.Skip()
	}
	for range count {
		r.hasOthers = true
		r.prompts = append(r.prompts, prompt{1, r.model.Context, 1})
	}
}

// suffix reads a text that engines add to each prompt.
func (r *reader) suffix() {
	if r.Kind() == '"' {
		r.suffixBytes = int64(len(r.Text(r.Skip())))
		return
	}
	r.Skip()
}

// side reads one side of a score: a text, or a list of them.
func (r *reader) side(into *texts) {
	if r.Kind() != '[' {
		r.one(into)
		return
	}
	r.List(func(int) { r.one(into) })
}

func (r *reader) one(into *texts) {
	into.count++
	if r.Kind() == '"' {
		into.bytes += int64(len(r.Text(r.Skip())))
		return
	}
	span, media := r.scanned()
	into.bytes += int64(span.Len()) - media
}

// pairs adds up the texts of a score. Some models read each pair together, so that a single text counts
// once for each text of the other side.
func (r *reader) pairs() {
	first := r.first.bytes
	if r.first.count == 1 {
		first *= max(1, r.second.count)
	}
	pairs := max(1, r.first.count, r.second.count)
	bytes := first + r.second.bytes
	most := bytes + pairs*pairTokens
	for at := range pairs {
		share := most / pairs
		if at == 0 {
			share += most % pairs
		}
		r.prompts = append(r.prompts, prompt{1, share, bytes / pairs / bytesPerPromptToken})
	}
}

// scanned reads messages, and returns how many bytes of them are media. The tokens of an image, a video
// or a recording are not known, so that a prompt with one can fill the context.
func (r *reader) scanned() (span jsonwalk.Span, media int64) {
	kind := r.Kind()
	switch kind {
	case '{':
		span = r.Object(func(key jsonwalk.Span) {
			if isMedia(r.Text(key)) && r.Kind() != 'n' {
				r.fills = true
				media += int64(r.Skip().Len())
				return
			}
			_, inner := r.scanned()
			media += inner
		})
	case '[':
		span = r.List(func(int) {
			_, inner := r.scanned()
			media += inner
		})
	default:
		span = r.Skip()
	}
	return span, media
}

// isMedia reports whether a part of a message with this key is not text (vLLM's `chat_utils`, OpenAI's
// and Anthropic's APIs).
func isMedia(key string) bool {
	switch key {
	case "image_url", "image_pil", "image_embeds", "audio_url", "audio_embeds", "input_audio", "video_url",
		"prompt_embeds", "file", "file_data", "file_id", "file_url", "source":
		return true
	}
	return false
}
