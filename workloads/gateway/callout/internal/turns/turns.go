// Package turns orders the waiting requests of a team, so that its programs and sessions get equal parts.
//
// A picker lets teams take turns, and has one queue for each team. This package decides the order in that queue:
// a request goes as if it had come later by Step for each request that its session has in flight, and for each other
// session of its program that has one. A program is a credential, so it cannot be invented, and a new session for
// each request gains nothing: other sessions of a program count as much as other requests of the session.
package turns

import (
	"sync"
	"time"
)

// Step is how much later a request goes for each one before it. Requests wait for at most nine seconds, so a program
// with ten in flight goes behind all programs that have none.
const Step = time.Second

// Program is a credential of a team, or the address of a caller without one, with the pool whose queue it shares.
type Program struct{ Team, Pool, Name string }

// Session is a digest of what identifies a session. Requests of a program with an equal one are one session.
type Session uint64

// Counter has the requests in flight that a replica of the gate has passed.
type Counter struct {
	mu       sync.Mutex
	programs map[Program]map[Session]int
}

// New returns a counter without requests.
func New() *Counter { return &Counter{programs: map[Program]map[Session]int{}} }

// Place is a request in flight.
type Place struct {
	counter *Counter
	program Program
	session Session
	// Later is how much later than its arrival the request goes.
	Later time.Duration
}

// Enter counts a request that is passed on.
func (c *Counter) Enter(program Program, session Session) *Place {
	c.mu.Lock()
	defer c.mu.Unlock()
	sessions := c.programs[program]
	if sessions == nil {
		sessions = map[Session]int{}
		c.programs[program] = sessions
	}
	before, others := sessions[session], len(sessions)
	if before > 0 {
		others--
	}
	sessions[session] = before + 1
	return &Place{c, program, session, time.Duration(before+others) * Step}
}

// Leave ends a request. Further calls, and one on nil, have no effect.
func (p *Place) Leave() {
	if p == nil || p.counter == nil {
		return
	}
	c := p.counter
	p.counter = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	sessions := c.programs[p.program]
	if sessions[p.session]--; sessions[p.session] > 0 {
		return
	}
	delete(sessions, p.session)
	if len(sessions) == 0 {
		delete(c.programs, p.program)
	}
}

// Len returns the number of programs with requests in flight.
func (c *Counter) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.programs)
}
