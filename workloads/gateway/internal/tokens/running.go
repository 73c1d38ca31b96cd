package tokens

// maxRunning is the largest number of choices whose usage is kept.
const maxRunning = 1 << 16

// Usage is the usage that an engine reports.
type Usage struct{ Prompt, Cached, Completion int64 }

// Running is the usage of a stream so far. Engines report it with each event, for the choice of the event
// and its prompt alone (vLLM's `continuous_usage_stats`, entrypoints/openai/chat_completion/serving.py).
type Running struct {
	// Answers is the number of choices for each prompt.
	Answers int64
	choices map[int64]Usage
}

// Has reports whether an event had a usage.
func (r *Running) Has() bool { return len(r.choices) > 0 }

// Take takes the usage of an event of a choice, whose number counts through all prompts.
func (r *Running) Take(choice int64, used Usage) {
	if r.choices == nil {
		r.choices = map[int64]Usage{}
	}
	seen, isKnown := r.choices[choice]
	if !isKnown && len(r.choices) == maxRunning {
		return
	}
	r.choices[choice] = Usage{
		max(seen.Prompt, used.Prompt), max(seen.Cached, used.Cached), max(seen.Completion, used.Completion),
	}
}

// Total adds up the choices. Those of one prompt have it in common.
func (r *Running) Total() (found Usage) {
	prompts := map[int64]Usage{}
	for choice, used := range r.choices {
		found.Completion += used.Completion
		at := choice / max(1, r.Answers)
		of := prompts[at]
		prompts[at] = Usage{max(of.Prompt, used.Prompt), max(of.Cached, used.Cached), 0}
	}
	for _, of := range prompts {
		found.Prompt, found.Cached = found.Prompt+of.Prompt, found.Cached+of.Cached
	}
	return found
}
