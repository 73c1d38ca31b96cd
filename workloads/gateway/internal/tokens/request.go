// Package tokens counts the tokens of requests and responses: at most, for what a request reserves, and
// approximately, for what it pays if no engine reports its usage.
package tokens

import (
	"encoding/json"
	"fmt"

	"gke-inference/gateway/internal/jsonwalk"
	"gke-inference/gateway/internal/paths"
)

const (
	// DefaultContext is the assumed context of models that nobody describes.
	DefaultContext = 1 << 17
	// MaxAnswer is the largest accepted limit of one answer.
	MaxAnswer = 1 << 24
	// MaxChoices is the largest accepted number of answers to one prompt.
	MaxChoices = 1 << 10

	bytesPerPromptToken = 4
	// templateTokens bounds what the template of a chat adds besides the texts of the body. The longest
	// templates add instructions for tools, some hundred tokens; each message adds fewer tokens than its
	// JSON has bytes.
	templateTokens = 512
	// specialTokens bounds what a tokenizer adds to one text, such as <s>.
	specialTokens = 8
	// pairTokens bounds what a reranker adds to a pair of texts. The longest known template, of
	// Qwen3-Reranker, has less than 100.
	pairTokens = 128
)

// Model is what is known about the model of a request.
type Model struct {
	// Context is the maximum length of a prompt with its answer.
	Context int64
	// IsAssumed is set if nobody knows the context. Then it limits only answers that have no other limit.
	IsAssumed bool
}

// Size is the number of tokens that a request can use.
type Size struct {
	// Most is the largest number of tokens that an engine can report, MostPrompt of the prompts and
	// MostAnswer of the answers. Most can be less than their sum: both share the context.
	Most, MostPrompt, MostAnswer int64
	// Prompt is the probable number of tokens of the prompts. It is exact for token IDs.
	Prompt int64
	// Sequences is the number of answers that the client gets, which are generated at the same time.
	Sequences int64
	// Choices is the number of answers to each prompt that the client gets.
	Choices int64
	// IsLimited is whether the client limits the length of the answer.
	IsLimited bool
	// IsText is whether the prompts are nothing but texts of the request, of whose tokens Prompt is an
	// estimate: no token IDs, vectors or media, and nothing that an engine adds from elsewhere.
	IsText bool
}

// Invalid is the error of a field that is not a whole number within its bounds.
type Invalid struct {
	Field     string
	Low, High int64
}

// Error names the field and its rule.
func (i *Invalid) Error() string {
	return fmt.Sprintf("`%s` must be a whole number from %d to %d.", i.Field, i.Low, i.High)
}

// Of returns the size of a request to a path such as /v1/completions. The body must be valid JSON.
//
// Engines read different fields on each path, and the last or the newest of several. An answer is
// therefore limited only by a field of its path, and then by the largest number in any of the fields.
func Of(path string, body []byte, model Model) (Size, error) {
	cursor, isValid := jsonwalk.New(body)
	if !isValid || cursor.Kind() != '{' {
		return Size{}, &json.SyntaxError{}
	}
	r := reader{Cursor: cursor, path: path, model: model, choices: 1, shown: 1}
	r.read()
	if r.fault != nil {
		return Size{}, r.fault
	}
	if path == paths.CountTokens {
		return Size{}, nil // the engine applies the template and generates nothing
	}
	return r.size(int64(len(body))), nil
}

// prompt is one prompt of a request: bounds of its tokens, and the probable number.
type prompt struct{ least, most, probable int64 }

type reader struct {
	*jsonwalk.Cursor
	path  string
	model Model

	limit     int64
	hasLimit  bool
	choices   int64
	shown     int64
	prompts   []prompt
	first     texts
	second    texts
	isChat    bool
	media     int64
	fills     bool
	hasOthers bool // prompts other than texts
	toolBytes int64
	// suffixBytes are those of the text after each prompt.
	suffixBytes int64
	fault       error
}

// texts are the texts on one side of a score.
type texts struct{ count, bytes int64 }

func (r *reader) read() {
	r.isChat = true
	switch r.path {
	case paths.Completions, paths.Embeddings, paths.Rerank, paths.Score, paths.Images, paths.Edits, paths.Videos:
		r.isChat = false
	}
	r.Object(func(key jsonwalk.Span) {
		name := r.Text(key)
		switch name {
		case "max_tokens", "max_completion_tokens", "max_output_tokens":
			if found, has := r.number(name, 0, MaxAnswer); has {
				r.limit = max(r.limit, found)
				// some engines read 0 in a chat as no limit (SGLang: `max_tokens or max_completion_tokens`)
				isLimit := limits(r.path, name) && (found > 0 || !r.isChat)
				r.hasLimit = r.hasLimit || isLimit
			}
		case "n", "best_of":
			if found, has := r.number(name, 1, MaxChoices); has {
				r.choices = max(r.choices, found)
				if name == "n" {
					r.shown = found
				}
			}
		default:
			r.content(name)
		}
	})
}

// number reads a whole number. A client must not be able to break the count of its tokens.
func (r *reader) number(name string, low, high int64) (found int64, has bool) {
	raw := r.Raw(r.Skip())
	if string(raw) == "null" {
		return 0, false
	}
	if json.Unmarshal(raw, &found) != nil || found < low || found > high {
		r.fault = &Invalid{name, low, high}
		return 0, false
	}
	return found, true
}

// size adds up the prompts and their answers.
func (r *reader) size(bytes int64) Size {
	switch {
	case r.path == paths.Completions:
		for at := range r.prompts {
			r.prompts[at].most += r.suffixBytes
		}
	case r.path == paths.Rerank || r.path == paths.Score:
		r.pairs()
	case r.isChat:
		r.chat(bytes)
	case len(r.prompts) == 0: // an image, or nothing that an engine accepts
		text := bytes - r.media
		r.prompts = []prompt{{0, text, text / bytesPerPromptToken}}
	}
	if len(r.prompts) == 0 {
		r.prompts = []prompt{{}}
	}
	found := Size{
		IsLimited: r.hasLimit, Sequences: r.shown * int64(len(r.prompts)), Choices: r.shown, IsText: !r.fills && !r.hasOthers,
	}
	generates := r.isChat || r.path == paths.Completions
	for _, one := range r.prompts {
		answer := int64(0)
		if generates {
			answer = r.choices
		} else {
			found.Sequences = 0
		}
		r.add(&found, one, answer)
	}
	return found
}

// add adds one prompt with a number of answers.
func (r *reader) add(to *Size, one prompt, answers int64) {
	context := r.model.Context
	if r.fills {
		one.most = max(one.most, context)
	}
	if !r.model.IsAssumed {
		one.most, one.least = min(one.most, context), min(one.least, context)
		one.probable = min(one.probable, context)
	}
	most := context - one.least
	if r.hasLimit {
		longest := max(1, r.limit) // an engine that generates nothing reports one token
		if r.model.IsAssumed {
			most = longest
		} else {
			most = min(most, longest)
		}
	}
	most = max(0, most)
	to.Prompt += one.probable
	to.MostPrompt += one.most
	to.MostAnswer += answers * most
	total := one.most + answers*most
	if !r.model.IsAssumed && answers > 0 {
		// the longest prompt that still leaves room for the longest answer, or the shortest prompt
		room := max(one.least, min(one.most, context-most))
		total = room + answers*min(most, context-room)
	}
	to.Most += total
}
