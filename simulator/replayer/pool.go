package main

import "math"

const lookSeconds = 0.05 // simulator.engine.replay.LOOK_SECONDS

// member is a replica of a pool.
type member struct {
	number  int64
	engine  *engine
	waiting int32 // as of the last look
	usage   float64
}

// pool has replicas that get the same requests.
type pool struct {
	members  []member
	quiet    []float64 // times before which no request of a member ends
	busy     []int32   // unfinished requests of a member
	turn     int
	lastLook int64
	picker   *picker
}

func newPool(set *settings) *pool {
	p := &pool{lastLook: -1}
	if set.Route == "picker" {
		p.picker = newPicker(set.Picker)
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
	case "least-request":
		for index, until := range p.quiet {
			if until <= a.seconds {
				e := p.members[index].engine
				e.advance(a.seconds)
				p.quiet[index], p.busy[index] = e.quiet(), e.unfinished()
			}
		}
		least := p.busy[0]
		for index, count := range p.busy {
			if count < least {
				least, chosen = count, index
			}
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
	e.submit(a.seconds, a.number, a.prompt, a.output, ofGroup, ofQuestion, a.prefix, a.question)
	if route == "least-request" {
		p.quiet[chosen], p.busy[chosen] = e.quiet(), e.unfinished()
	}
}

// look reads the members' metrics, at most once in lookSeconds.
func (p *pool) look(now float64) {
	number := int64(now / lookSeconds)
	if number <= p.lastLook {
		return
	}
	p.lastLook = number
	for index := range p.members {
		m := &p.members[index]
		m.engine.advance(float64(number) * lookSeconds)
		m.waiting, m.usage = m.engine.waiting, m.engine.cache.usage()
	}
}

// serve sets the members; those that stay keep what the picker knows of them.
func (p *pool) serve(members []member) {
	for index := range members {
		for _, old := range p.members {
			if old.number == members[index].number {
				members[index].waiting, members[index].usage = old.waiting, old.usage
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
