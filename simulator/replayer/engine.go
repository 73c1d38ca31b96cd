package main

import (
	"math"
	"slices"
)

// request is a sequence of tokens in an engine. While it decodes, its computed and generated
// tokens follow from the engine's count of decode steps.
type request struct {
	number      int64
	first       float64 // time of the first token; NaN before
	notBefore   int64   // first step that can compute it: Request.first_step
	order       int64   // of admission; 0: not running
	joined      int64   // decode steps of the engine when it began to decode
	prompt      int32
	output      int32
	computed    int32
	generated   int32
	cached      int32
	preemptions int32
	ofGroup     int32 // blocks that are named after the group
	ofQuestion  int32 // blocks that are named after the group, or after them the question
	group       int32
	question    int32
	adapter     int32
	before      int32 // running requests in the order of admission
	after       int32 // also the queue of waiting requests
	isDecoding  bool
	isWatched   bool
	runs        []int32 // free runs of its own blocks, from before it was preempted
	duplicates  []int32 // full blocks without a name, as other blocks have it; ascending
}

func (r *request) dropRun(number int32) {
	if at := slices.Index(r.runs, number); at >= 0 {
		r.runs = slices.Delete(r.runs, at, at+1)
	}
}

type finisher struct {
	step  int64
	order int64
	index int32
}

type part struct {
	index  int32
	tokens int32
}

// row is a request that ended.
type row struct {
	number                         int64
	first, last                    float64
	generated, cached, preemptions int32
}

// engine is one replica: simulator.engine.core.EngineCore and scheduler.Scheduler, with the same
// results. A step costs the work that is not decoding, plus a constant.
type engine struct {
	kind     *Kind
	cache    cache
	requests []request
	spare    []int32

	now   float64 // end of the last step
	end   float64 // end of the running step; negative: none runs
	step  int64   // number of the step that is scheduled next
	steps int64

	// Requests that decode: every step gives each of them one token.
	decoded  int64   // decode steps so far
	decoding int32   // how many
	computed int64   // their computed tokens
	phases   []int32 // how many by (computed - decoded) modulo the block size
	starting int32   // the phase that starts a block in the next step
	ends     []finisher
	watched  [][]int32 // those whose blocks are named as they fill, by phase
	watches  int32

	partial     int32  // request whose prompt is computed in chunks; always the last running one
	work        []part // of the running step, without those that decode
	joined      int32  // running requests among them
	head, tail  int32  // running requests
	orders      int64
	queue, last int32 // waiting requests
	waiting     int32
	waitTokens  int64
	least       float64 // shortest possible step, in seconds
	adapters    adapters

	ended []row
}

func newEngine(kind *Kind) *engine {
	return &engine{
		kind: kind, cache: newCache(kind), end: -1, partial: none, head: none, tail: none,
		queue: none, last: none, phases: make([]int32, kind.BlockSize),
		watched: make([][]int32, kind.BlockSize), least: kind.seconds(1, 0, 0, 0, 0),
		adapters: adapters{set: kind.Lora},
	}
}

func (e *engine) running() int32    { return e.decoding + e.joined }
func (e *engine) unfinished() int32 { return e.decoding + e.joined + e.waiting }

// phaseOf returns the phase of a request with so many computed tokens after the last decode step.
func (e *engine) phaseOf(computed int32) int32 {
	size := e.cache.size
	phase := computed%size + e.starting
	if phase >= size {
		phase -= size
	}
	return phase
}

func blocksFor(tokens, size int32) int32 { return (tokens + size - 1) / size }

// submit queues a request: EngineCore.submit.
func (e *engine) submit(now float64, number int64, prompt, output int32, ofGroup, ofQuestion int32, group, question int64, adapter int32) {
	e.advance(now)
	if prompt+output > e.kind.LongestLen {
		nan := math.NaN()
		e.ended = append(e.ended, row{number: number, first: nan, last: nan})
		return
	}
	var index int32
	if last := len(e.spare) - 1; last >= 0 {
		index, e.spare = e.spare[last], e.spare[:last]
	} else {
		index = int32(len(e.requests))
		e.requests = append(e.requests, request{})
	}
	r := &e.requests[index]
	runs, duplicates := r.runs[:0], r.duplicates[:0]
	*r = request{
		number: number, first: math.NaN(), prompt: prompt, output: output, group: none,
		question: none, adapter: adapter, before: none, after: none, runs: runs,
		duplicates: duplicates,
	}
	if e.kind.Caches {
		if ofGroup > 0 {
			r.group, r.ofGroup = e.cache.use(group), ofGroup
		}
		r.ofQuestion = r.ofGroup
		if ofQuestion > r.ofGroup {
			r.question, r.ofQuestion = e.cache.use(question), ofQuestion
		}
	}
	if e.end < 0 {
		e.now = max(now, e.now)
	} else if e.kind.Async {
		r.notBefore = e.step + 1
	}
	if e.last == none {
		e.queue = index
	} else {
		e.requests[e.last].after = index
	}
	e.last = index
	e.waiting++
	e.waitTokens += int64(prompt)
}

// advance computes everything up to a time: EngineCore.advance.
func (e *engine) advance(until float64) {
	for {
		if e.end >= 0 {
			if e.end > until {
				return
			}
			e.complete()
		}
		if e.unfinished() == 0 {
			return
		}
		if e.joined == 0 && (e.waiting == 0 || e.decoding >= e.kind.MostRunning) {
			e.decode(until)
			if e.end >= 0 {
				return
			}
		}
		if !e.begin() {
			return
		}
	}
}

// decode computes steps that only decode, up to the one in which a request ends or the one for
// which blocks are missing. The one that runs at the given time stays to be completed.
func (e *engine) decode(until float64) {
	if len(e.ends) == 0 {
		return
	}
	c, f := &e.cache, &e.kind.Figures
	count, size := e.decoding, c.size
	last := e.nextEnd() - 1
	perStep := int64(count)
	products := max(e.kind.compute[count], e.kind.reads[count])
	rest := e.kind.rest[count]
	loaded := 0
	if len(e.adapters.used) > 0 {
		loaded, _ = e.adapters.load(none) // all of them are there
	}
	for e.decoded < last {
		needed := e.phases[e.starting]
		if needed > c.free {
			return
		}
		if needed > 0 {
			c.take(needed, e.requests)
		}
		context := float64(e.computed + perStep)
		distinct := float64(int64(c.total-c.free) * int64(size))
		var seconds float64
		if f.IsSeparate && loaded == 0 {
			read := context
			if distinct < read {
				read = distinct + f.Shared*(read-distinct)
			}
			seconds = products + max(context*f.PairFlops/f.AttentionPeak, read*f.KvBytes/f.KvBandwidth) + rest
		} else {
			seconds = e.kind.seconds(count, context, context, distinct, loaded)
		}
		e.step++
		end := e.now + seconds
		if end > until {
			e.end = end
			e.work = e.work[:0]
			return
		}
		e.now = end
		e.passDecoded()
	}
}

// passDecoded records a decode step that is over.
func (e *engine) passDecoded() {
	e.steps++
	e.decoded++
	e.computed += int64(e.decoding)
	if e.starting == 0 {
		e.starting = e.cache.size
	}
	e.starting--
	if e.watches > 0 {
		for _, index := range e.watched[e.starting] {
			r := &e.requests[index]
			full := (r.computed + int32(e.decoded-r.joined)) / e.cache.size
			e.name(r, full-1, full)
		}
	}
}

// nextEnd returns the decode step after which the next request ends.
func (e *engine) nextEnd() int64 {
	for len(e.ends) > 0 {
		top := e.ends[0]
		if e.requests[top.index].order == top.order {
			return top.step
		}
		e.popEnd()
	}
	return math.MaxInt64
}

func (e *engine) pushEnd(f finisher) {
	e.ends = append(e.ends, f)
	at := len(e.ends) - 1
	for at > 0 {
		parent := (at - 1) / 2
		if !isSooner(f, e.ends[parent]) {
			break
		}
		e.ends[at] = e.ends[parent]
		at = parent
	}
	e.ends[at] = f
}

func (e *engine) popEnd() {
	size := len(e.ends) - 1
	f := e.ends[size]
	e.ends = e.ends[:size]
	if size == 0 {
		return
	}
	at := 0
	for {
		child := 2*at + 1
		if child >= size {
			break
		}
		if child+1 < size && isSooner(e.ends[child+1], e.ends[child]) {
			child++
		}
		if !isSooner(e.ends[child], f) {
			break
		}
		e.ends[at] = e.ends[child]
		at = child
	}
	e.ends[at] = f
}

func isSooner(a, b finisher) bool {
	return a.step < b.step || (a.step == b.step && a.order < b.order)
}

// name publishes blocks of a request that are full now: Scheduler.publish.
func (e *engine) name(r *request, low, high int32) {
	if low < min(high, r.ofGroup) {
		r.duplicates = e.cache.publish(r.group, low, min(high, r.ofGroup), 0, r.duplicates)
		low = min(high, r.ofGroup)
	}
	if low < min(high, r.ofQuestion) {
		r.duplicates = e.cache.publish(
			r.question, low-r.ofGroup, min(high, r.ofQuestion)-r.ofGroup, r.ofGroup, r.duplicates)
		low = min(high, r.ofQuestion)
	}
	if len(r.runs) == 0 {
		return
	}
	for ; low < high; low++ {
		for _, number := range r.runs {
			if run := &e.cache.entries[number]; run.low <= low && low < run.high {
				r.duplicates = append(r.duplicates, low)
			}
		}
	}
}

// complete records the step that ends: EngineCore._complete.
func (e *engine) complete() {
	now, size := e.end, e.cache.size
	e.now, e.end = now, -1
	if e.decoding > 0 {
		e.passDecoded()
	} else {
		e.steps++
	}
	if len(e.work) > 0 || e.partial == none { // else the budget had nothing left for it
		e.joined, e.partial = 0, none
	}
	for at := range e.work {
		index, tokens := e.work[at].index, e.work[at].tokens
		r := &e.requests[index]
		full := r.computed / size
		r.computed += tokens
		if e.kind.Caches && (full < r.ofQuestion || len(r.runs) > 0) {
			e.name(r, full, r.computed/size)
		}
		if r.computed < r.prompt+r.generated {
			e.partial = index
			e.joined = 1
			continue
		}
		r.generated++
		if r.generated == 1 {
			r.first = now
		}
		// one that has all its tokens ends now, after those that came before it
		e.join(index)
	}
	e.work = e.work[:0]
	for len(e.ends) > 0 && e.nextEnd() <= e.decoded {
		index := e.ends[0].index
		e.popEnd()
		e.finish(index, now)
	}
}

// join lets a request decode from now on.
func (e *engine) join(index int32) {
	r := &e.requests[index]
	r.isDecoding, r.joined = true, e.decoded
	e.decoding++
	e.computed += int64(r.computed)
	phase := e.phaseOf(r.computed)
	e.phases[phase]++
	if e.kind.Caches && (r.ofQuestion*e.cache.size > r.computed || len(r.runs) > 0) {
		r.isWatched = true
		e.watches++
		e.watched[phase] = append(e.watched[phase], index)
	}
	e.pushEnd(finisher{e.decoded + int64(r.output-r.generated), r.order, index})
}

// leave takes a request out of the running ones, and brings its counts up to date.
func (e *engine) leave(index int32) {
	r := &e.requests[index]
	if r.isDecoding {
		done := int32(e.decoded - r.joined)
		r.computed += done
		r.generated += done
		r.isDecoding = false
		e.decoding--
		e.computed -= int64(r.computed)
		phase := e.phaseOf(r.computed)
		e.phases[phase]--
		if r.isWatched {
			r.isWatched = false
			e.watches--
			at := slices.Index(e.watched[phase], index)
			e.watched[phase] = slices.Delete(e.watched[phase], at, at+1)
		}
	}
	r.order = 0
	if r.adapter != none {
		e.adapters.leave(r.adapter)
	}
	if r.before == none {
		e.head = r.after
	} else {
		e.requests[r.before].after = r.after
	}
	if r.after == none {
		e.tail = r.before
	} else {
		e.requests[r.after].before = r.before
	}
}

func (e *engine) finish(index int32, now float64) {
	e.leave(index)
	r := &e.requests[index]
	e.release(r, none, 0)
	e.ended = append(e.ended, row{r.number, r.first, now, r.generated, r.cached, r.preemptions})
	e.forget(index)
}

// forget makes the place of a request that has left available again.
func (e *engine) forget(index int32) {
	r := &e.requests[index]
	for _, number := range r.runs {
		e.cache.entries[number].owner = none
	}
	if r.group != none {
		e.cache.leave(r.group)
	}
	if r.question != none {
		e.cache.leave(r.question)
	}
	e.spare = append(e.spare, index)
}

// cancel removes the requests with some numbers and returns how many it had: EngineCore.abort. The
// running step takes its time all the same.
func (e *engine) cancel(numbers map[int64]bool, now float64) int {
	e.advance(now)
	var found []int32
	for index := e.head; index != none; index = e.requests[index].after {
		if numbers[e.requests[index].number] {
			found = append(found, index)
		}
	}
	for _, index := range found {
		tokens := int32(0) // of the running step, whose blocks it holds
		switch at := slices.IndexFunc(e.work, func(each part) bool { return each.index == index }); {
		case e.requests[index].isDecoding:
			if e.end >= 0 {
				tokens = 1
			}
		case at >= 0:
			tokens = e.work[at].tokens
			e.work = slices.Delete(e.work, at, at+1)
			e.joined--
		default:
			e.joined--
		}
		if index == e.partial {
			e.partial = none
		}
		e.leave(index)
		e.release(&e.requests[index], none, tokens)
		e.forget(index)
	}
	count, before := len(found), none
	for index := e.queue; index != none; {
		r := &e.requests[index]
		next := r.after
		if !numbers[r.number] {
			before, index = index, next
			continue
		}
		if before == none {
			e.queue = next
		} else {
			e.requests[before].after = next
		}
		if next == none {
			e.last = before
		}
		e.waiting--
		e.waitTokens -= int64(r.prompt)
		e.forget(index)
		count++
		index = next
	}
	if count > 0 && e.end < 0 {
		e.now = max(now, e.now)
	}
	return count
}

// release frees the blocks of a request, the tail first: KvCache.release. It also holds blocks for
// its tokens in the running step.
func (e *engine) release(r *request, owner, tokens int32) {
	c := &e.cache
	held := blocksFor(r.computed+tokens, c.size)
	full := int32(0)
	if e.kind.Caches {
		full = r.computed / c.size
	}
	unnamed := held - full + int32(len(r.duplicates))
	c.unnamed += unnamed
	c.free += unnamed
	high := full
	for at := len(r.duplicates) - 1; at >= 0; at-- {
		e.free(r, owner, r.duplicates[at]+1, high)
		high = r.duplicates[at]
	}
	e.free(r, owner, 0, high)
	r.duplicates = r.duplicates[:0]
}

// free frees full blocks of a request that have its names, the last one first.
func (e *engine) free(r *request, owner, low, high int32) {
	c := &e.cache
	if from := max(low, r.ofQuestion); from < high {
		e.freeOwn(r, owner, from, high)
	}
	if from, to := max(low, r.ofGroup), min(high, r.ofQuestion); from < to {
		c.letGo(r.question, from-r.ofGroup, to-r.ofGroup)
	}
	if to := min(high, r.ofGroup); low < to {
		c.letGo(r.group, low, to)
	}
}

func (e *engine) freeOwn(r *request, owner, low, high int32) {
	number := e.cache.freeRun(owner, low, high)
	if owner != none {
		r.runs = append(r.runs, number)
	}
}

// preempt moves a running request to the front of the queue: Scheduler._preempt.
func (e *engine) preempt(index int32) {
	if index == e.partial {
		e.partial = none
		e.joined--
	}
	e.leave(index)
	r := &e.requests[index]
	e.release(r, index, 0)
	r.computed = 0
	r.preemptions++
	r.before, r.after = none, e.queue
	if e.queue == none {
		e.last = index
	}
	e.queue = index
	e.waiting++
	e.waitTokens += int64(r.prompt)
}

// begin starts the next step: EngineCore._begin and Scheduler.schedule.
func (e *engine) begin() bool {
	c, kind := &e.cache, e.kind
	late := e.step
	if e.running() == 0 && e.queue != none && e.requests[e.queue].notBefore > late {
		for index := e.queue; index != none; index = e.requests[index].after {
			e.requests[index].notBefore = 0 // nothing was there to schedule ahead
		}
	}
	isPreempted := e.scheduleRunning()
	budget := kind.MostTokens - e.decoding
	var prompts, decodes int32 = 0, e.decoding
	context := float64(e.computed + int64(e.decoding))
	pairs := context
	idle := none // adapter of a running request that is not in the step
	if e.partial != none {
		r := &e.requests[e.partial]
		pending := r.prompt + r.generated - r.computed
		if tokens := min(pending, budget); tokens > 0 {
			budget -= tokens
			if r.generated > 0 && pending == 1 {
				decodes++
			} else {
				prompts += tokens
			}
			context += float64(r.computed + tokens)
			pairs += float64(tokens) * (float64(r.computed) + float64(tokens+1)/2)
			e.work = append(e.work, part{e.partial, tokens})
		} else {
			idle = r.adapter
		}
	}
	skipped := none // the last one that waits for room for its adapter
	for !isPreempted && budget > 0 && e.running() < kind.MostRunning {
		index := e.queue
		if skipped != none {
			index = e.requests[skipped].after
		}
		if index == none || e.requests[index].notBefore > late {
			break
		}
		if !e.adapters.hasRoom(e.requests[index].adapter) {
			skipped = index
			continue
		}
		tokens := e.admit(index, skipped, budget)
		if tokens == 0 {
			break
		}
		r := &e.requests[index]
		budget -= tokens
		if r.generated > 0 && tokens == 1 && r.prompt+r.generated-r.computed == 1 {
			decodes++
		} else {
			prompts += tokens
		}
		context += float64(r.computed + tokens)
		pairs += float64(tokens) * (float64(r.computed) + float64(tokens+1)/2)
		e.work = append(e.work, part{index, tokens})
	}
	e.step++
	if e.decoding == 0 && len(e.work) == 0 && !isPreempted {
		return false
	}
	distinct := float64(int64(c.total-c.free) * int64(c.size))
	loaded, loading := 0, 0.0
	if len(e.adapters.used) > 0 {
		loaded, loading = e.adapters.load(idle)
	}
	e.end = e.now + (kind.seconds(prompts+decodes, context, pairs, distinct, loaded) + loading)
	return true
}

// scheduleRunning holds the blocks that running requests need for the step: it preempts the newest
// where blocks are missing, and returns whether it did.
func (e *engine) scheduleRunning() bool {
	c, size := &e.cache, e.cache.size
	needed, ofPartial := e.phases[e.starting], int32(0)
	if e.partial != none {
		r := &e.requests[e.partial]
		tokens := min(r.prompt+r.generated-r.computed, e.kind.MostTokens-e.decoding)
		ofPartial = blocksFor(r.computed+tokens, size) - blocksFor(r.computed, size)
	}
	if needed+ofPartial <= c.free {
		if needed+ofPartial > 0 {
			c.take(needed+ofPartial, e.requests)
		}
		return false
	}
	isPreempted := false
	scheduled := int32(0)
	for index := e.head; index != none; index = e.requests[index].after {
		r := &e.requests[index]
		missing := int32(0)
		if r.isDecoding {
			if (r.computed+int32(e.decoded-r.joined))%size == 0 {
				missing = 1
			}
		} else {
			tokens := min(r.prompt+r.generated-r.computed, e.kind.MostTokens-scheduled)
			missing = blocksFor(r.computed+tokens, size) - blocksFor(r.computed, size)
		}
		for missing > c.free {
			victim := e.tail
			e.preempt(victim)
			isPreempted = true
			if victim == index {
				return true
			}
		}
		if missing > 0 {
			c.take(missing, e.requests)
		}
		scheduled++
	}
	return isPreempted
}

// admit holds blocks for the first waiting request, or the one after another, and returns the
// tokens to compute now; 0 without room: Scheduler._admit.
func (e *engine) admit(index, after, budget int32) int32 {
	c, r := &e.cache, &e.requests[index]
	size, length := c.size, r.prompt+r.generated
	cached, idle := int32(0), int32(0)
	most := (length - 1) / size
	var ofGroup, ofQuestion int32
	if e.kind.Caches {
		if r.group != none {
			ofGroup, idle = c.cached(r.group, min(most, r.ofGroup))
		}
		cached = ofGroup
		if r.question != none && cached == r.ofGroup {
			more := int32(0)
			ofQuestion, more = c.cached(r.question, min(most, r.ofQuestion)-r.ofGroup)
			cached += ofQuestion
			idle += more
		}
		if len(r.runs) > 0 && cached == r.ofQuestion {
			for again := true; again; {
				again = false
				for _, number := range r.runs {
					run := &c.entries[number]
					if run.low <= cached && cached < run.high && cached < most {
						high := min(run.high, most)
						idle += high - cached
						cached = high
						again = true
					}
				}
			}
		}
	}
	tokens := length - cached*size
	if tokens > budget {
		if !e.kind.Chunked {
			return 0
		}
		tokens = budget
	}
	needed := blocksFor(cached*size+tokens, size) - cached
	if needed > c.free-idle {
		return 0
	}
	if ofGroup > 0 {
		c.hold(r.group, ofGroup)
	}
	if ofQuestion > 0 {
		c.hold(r.question, ofQuestion)
	}
	if cached > r.ofQuestion {
		e.takeOwn(r, cached)
	}
	c.take(needed, e.requests)
	r = &e.requests[index]
	r.computed = cached * size
	if r.preemptions == 0 {
		r.cached = r.computed
		c.queries += int64(r.prompt)
		c.hits += int64(r.computed)
	}
	if after == none {
		e.queue = r.after
	} else {
		e.requests[after].after = r.after
	}
	if e.last == index {
		e.last = after
	}
	e.waiting--
	e.waitTokens -= int64(r.prompt)
	e.orders++
	r.order = e.orders
	if r.adapter != none {
		e.adapters.join(r.adapter)
	}
	r.before, r.after = e.tail, none
	if e.tail == none {
		e.head = index
	} else {
		e.requests[e.tail].after = index
	}
	e.tail = index
	e.joined++
	return tokens
}

// takeOwn holds the first blocks of a request again that it had before it was preempted.
func (e *engine) takeOwn(r *request, cached int32) {
	kept := r.runs[:0]
	for _, number := range r.runs {
		run := &e.cache.entries[number]
		if run.low >= cached {
			kept = append(kept, number)
			continue
		}
		taken := min(run.high, cached)
		e.cache.free -= taken - run.low
		run.low = taken
		if run.low == run.high {
			e.cache.detach(number)
		} else {
			kept = append(kept, number)
		}
	}
	r.runs = kept
}

// numbers returns the numbers of the requests that have not ended, ascending.
func (e *engine) numbers() []int64 {
	var found []int64
	for index := e.head; index != none; index = e.requests[index].after {
		found = append(found, e.requests[index].number)
	}
	for index := e.queue; index != none; index = e.requests[index].after {
		found = append(found, e.requests[index].number)
	}
	slices.Sort(found)
	return found
}

// quiet returns a time before which no request ends.
func (e *engine) quiet() float64 {
	if e.end < 0 {
		if e.unfinished() == 0 {
			return math.Inf(1)
		}
		return e.now
	}
	if e.joined > 0 || e.waiting > 0 {
		return e.end
	}
	return e.end + float64(e.nextEnd()-e.decoded-1)*e.least
}
