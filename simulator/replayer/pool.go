package main

import (
	"math"
	"slices"
)

const lookSeconds = 0.05 // simulator.engine.replay.LOOK_SECONDS

// member is a replica of a pool.
type member struct {
	number int64
	engine *engine
	seen   seen
}

// seen is the state of a member as of the last look: modelled_picker.Seen.
type seen struct {
	waiting, running int32
	usage            float64
	adapters         []int32 // of running requests, ascending
	waitingAdapters  []int32
	mostAdapters     int
}

// pool has replicas that get the same requests.
type pool struct {
	members  []member
	quiet    []float64 // times before which no request of a member ends
	busy     []int32   // unfinished requests of a member
	turn     int
	lastLook int64
	interval float64 // seconds between looks
	picker   *picker
	random   *random
	homes    map[int64]int64 // members of sessions, by prompt
}

func newPool(set *settings) *pool {
	p := &pool{
		lastLook: -1, interval: lookSeconds, random: newRandom(set.Seed), homes: map[int64]int64{},
	}
	if set.Route == "picker" {
		p.picker = newPicker(set.Picker)
		if set.Picker.LookSeconds > 0 {
			p.interval = set.Picker.LookSeconds
		}
	}
	return p
}

// send gives a request to the member that the route chooses.
func (p *pool) send(route string, a *arrival) {
	if p.picker != nil {
		p.look(a.seconds)
	}
	chosen := 0
	switch route {
	case "round-robin":
		chosen = p.turn % len(p.members)
		p.turn++
	case "random":
		chosen = int(p.random.below(uint32(len(p.members))))
	case "two-choices":
		chosen = int(p.random.below(uint32(len(p.members))))
		other := int(p.random.below(uint32(len(p.members))))
		if p.unfinished(other, a.seconds) < p.unfinished(chosen, a.seconds) {
			chosen = other
		}
	case "least-request":
		chosen = p.least(a.seconds)
	case "session-affine":
		home, isKnown := p.homes[a.question]
		chosen = slices.IndexFunc(p.members, func(each member) bool { return each.number == home })
		if a.question < 0 || !isKnown || chosen < 0 {
			chosen = p.least(a.seconds)
			p.homes[a.question] = p.members[chosen].number
		}
	default:
		chosen = p.picker.pick(a, p.members)
	}
	e := p.members[chosen].engine
	size := e.cache.size
	ofGroup, ofQuestion := int32(0), int32(0)
	most := (a.prompt + a.output) / size
	if a.prefix >= 0 {
		ofGroup = min(a.prefixTokens/size, most)
	}
	if a.question >= 0 {
		ofQuestion = a.prompt / size
	}
	e.submit(
		a.seconds, a.number, a.prompt, a.output, ofGroup, ofQuestion, a.prefix, a.question, a.adapter)
	if p.picker == nil && route != "round-robin" {
		p.quiet[chosen], p.busy[chosen] = e.quiet(), e.unfinished()
	}
}

// least returns the first member with the fewest unfinished requests.
func (p *pool) least(now float64) int {
	chosen := 0
	for index := range p.quiet {
		if p.unfinished(index, now) < p.busy[chosen] {
			chosen = index
		}
	}
	return chosen
}

// unfinished returns a member's requests that have not ended at a time.
func (p *pool) unfinished(index int, now float64) int32 {
	if p.quiet[index] <= now {
		e := p.members[index].engine
		e.advance(now)
		p.quiet[index], p.busy[index] = e.quiet(), e.unfinished()
	}
	return p.busy[index]
}

// look reads the members' metrics, at most once in an interval.
func (p *pool) look(now float64) {
	number := int64(now / p.interval)
	if number <= p.lastLook {
		return
	}
	p.lastLook = number
	for index := range p.members {
		m := &p.members[index]
		m.engine.advance(float64(number) * p.interval)
		m.look()
	}
}

// look reads a member's metrics.
func (m *member) look() {
	e, s := m.engine, &m.seen
	s.waiting, s.running, s.usage = e.waiting, e.running(), e.cache.usage()
	if e.adapters.set == nil {
		return
	}
	s.mostAdapters = e.adapters.set.Slots
	s.adapters, s.waitingAdapters = s.adapters[:0], s.waitingAdapters[:0]
	for _, each := range e.adapters.used {
		s.adapters = append(s.adapters, each.adapter)
	}
	for index := e.queue; index != none; index = e.requests[index].after {
		adapter := e.requests[index].adapter
		if adapter != none && !slices.Contains(s.waitingAdapters, adapter) {
			s.waitingAdapters = append(s.waitingAdapters, adapter)
		}
	}
}

// serve sets the members; those that stay keep what the picker knows of them.
func (p *pool) serve(members []member) {
	for index := range members {
		for _, old := range p.members {
			if old.number == members[index].number {
				members[index].seen = old.seen
			}
		}
	}
	p.members = members
	p.refresh()
}

func (p *pool) remove(number int64) {
	for index := range p.members {
		if p.members[index].number == number {
			p.members = append(p.members[:index], p.members[index+1:]...)
			break
		}
	}
	if p.picker != nil {
		p.picker.drop(number)
	}
	p.refresh()
}

// changed forgets what is known of a member's times.
func (p *pool) changed(number int64) {
	for index := range p.members {
		if p.members[index].number == number {
			p.quiet[index] = math.Inf(-1)
		}
	}
}

// refresh forgets what is known of members' times.
func (p *pool) refresh() {
	if p.picker != nil {
		p.picker.place(p.members)
	}
	p.quiet = make([]float64, len(p.members))
	p.busy = make([]int32, len(p.members))
	for index := range p.members {
		p.quiet[index] = math.Inf(-1)
		p.busy[index] = p.members[index].engine.unfinished()
	}
}
