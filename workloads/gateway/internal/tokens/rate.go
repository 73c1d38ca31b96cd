package tokens

import (
	"math"
	"sync"
	"time"
)

// keptPart is the weight of all earlier answers when a new one is observed: the last 20 count most.
const keptPart = 0.95

// Rates are the speeds at which models generate one answer, measured from complete answers. Waiting in a
// queue and reading the prompt are part of the time.
type Rates struct {
	mu    sync.Mutex
	known map[string]rate
}

type rate struct{ tokens, seconds float64 }

// Observe takes a complete answer of a model.
func (r *Rates) Observe(model string, tokens, sequences int64, took time.Duration) {
	if tokens <= 0 || sequences <= 0 || took <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[string]rate{}
	}
	before := r.known[model]
	r.known[model] = rate{
		before.tokens*keptPart + float64(tokens)/float64(sequences),
		before.seconds*keptPart + took.Seconds(),
	}
}

// Elapsed returns how many tokens a request has generated after some time: what the model generates in
// this time, and at most what the request can use, which is the result while nothing is measured.
func (r *Rates) Elapsed(model string, size Size, took time.Duration) int64 {
	r.mu.Lock()
	known, has := r.known[model]
	r.mu.Unlock()
	if !has {
		return size.MostAnswer
	}
	made := math.Ceil(known.tokens / known.seconds * took.Seconds() * float64(size.Sequences))
	return min(size.MostAnswer, int64(made))
}
