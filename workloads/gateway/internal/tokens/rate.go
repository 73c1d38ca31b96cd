package tokens

import (
	"math"
	"sync"
	"time"
)

// keptPart is the weight of all earlier answers when a new one is observed: the last 20 count most.
const keptPart = 0.95

// longAnswer is the number of tokens from which the time of an answer is mostly that of its tokens. A client
// that asks for single tokens after long prompts must not make a model seem slow, for whose answers it leaves.
const longAnswer = 16

// Rates are what complete answers of each model tell about those that end early: the speed at which it
// generates one answer, and how many tokens its prompts really have for each that was estimated. Waiting in
// a queue and reading the prompt are part of the time.
type Rates struct {
	mu    sync.Mutex
	known map[string]rate
}

type rate struct {
	// long is the speed of long answers, short that of others, which counts while there are no long ones.
	long, short speed
	// prompt and estimated are the tokens of prompts by the engine's count and by this package's.
	prompt, estimated float64
}

type speed struct{ tokens, seconds float64 }

func (s *speed) observe(tokens float64, took time.Duration) {
	s.tokens = s.tokens*keptPart + tokens
	s.seconds = s.seconds*keptPart + took.Seconds()
}

// made returns the tokens of several answers after some time, and false while nothing is measured.
func (r *rate) made(took time.Duration, answers int64) (tokens float64, isKnown bool) {
	of := r.long
	if of.seconds == 0 {
		of = r.short
	}
	if of.seconds == 0 {
		return 0, false
	}
	return of.tokens / of.seconds * took.Seconds() * float64(answers), true
}

// Observe takes a complete answer of a model with the tokens that the engine counted.
func (r *Rates) Observe(model string, size Size, prompt, completion int64, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[string]rate{}
	}
	seen := r.known[model]
	if completion > 0 && size.Sequences > 0 && took > 0 {
		of := &seen.short
		if completion >= longAnswer*size.Sequences {
			of = &seen.long
		}
		of.observe(float64(completion)/float64(size.Sequences), took)
	}
	if prompt > 0 && size.Prompt > 0 && size.IsText {
		seen.prompt = seen.prompt*keptPart + float64(prompt)
		seen.estimated = seen.estimated*keptPart + float64(size.Prompt)
	}
	r.known[model] = seen
}

// Prompt returns the probable tokens of a prompt that the engine did not count: the estimate of its texts,
// corrected by how far those of earlier prompts were off, and at most what the prompt can have.
func (r *Rates) Prompt(model string, size Size) int64 {
	r.mu.Lock()
	known := r.known[model]
	r.mu.Unlock()
	if known.estimated == 0 || !size.IsText {
		return size.Prompt
	}
	return min(size.MostPrompt, int64(math.Round(float64(size.Prompt)*known.prompt/known.estimated)))
}

// Elapsed returns how many tokens a request has generated after some time: what the model generates in
// this time, and at most what the request can use, which is the result while nothing is measured.
func (r *Rates) Elapsed(model string, size Size, took time.Duration) int64 {
	made, isKnown := r.made(model, size, took)
	if !isKnown {
		return size.MostAnswer
	}
	return min(size.MostAnswer, int64(math.Ceil(made)))
}

// inFlight is the number of tokens of each answer that an engine has generated, and the gateway not yet passed
// on, when a client leaves.
const inFlight = 2

// Since returns how many tokens a request has probably generated since its last event, and 0
// while nothing is measured. isMore is whether they are more than a gateway has under way.
func (r *Rates) Since(model string, size Size, took time.Duration) (tokens int64, isMore bool) {
	made, _ := r.made(model, size, took)
	return int64(math.Round(made)), made > float64(inFlight*size.Sequences)
}

func (r *Rates) made(model string, size Size, took time.Duration) (tokens float64, isKnown bool) {
	r.mu.Lock()
	known := r.known[model]
	r.mu.Unlock()
	return known.made(took, size.Sequences)
}
