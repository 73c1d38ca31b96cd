package turns

import (
	"sync"
	"testing"
	"time"
)

var (
	agent     = Program{"research", "llama", "agent"}
	colleague = Program{"research", "llama", "colleague"}
)

func TestARequestGoesLaterForEachOneThatItsSessionHasInFlight(t *testing.T) {
	counter := New()
	first, second := counter.Enter(agent, 1), counter.Enter(agent, 1)
	if first.Later != 0 || second.Later != time.Second {
		t.Errorf("got %s and %s", first.Later, second.Later)
	}
	first.Leave()
	second.Leave()
	if again := counter.Enter(agent, 1); again.Later != 0 {
		t.Errorf("after both: got %s", again.Later)
	}
}

func TestManySessionsOfAProgramDoNotHoldUpAnotherProgram(t *testing.T) {
	counter := New()
	var last *Place
	for session := range Session(50) {
		last = counter.Enter(agent, session)
	}
	if last.Later != 49*time.Second {
		t.Errorf("the last of 50 sessions: got %s", last.Later)
	}
	if found := counter.Enter(colleague, 1); found.Later != 0 {
		t.Errorf("another program: got %s", found.Later)
	}
}

func TestASessionWithManyRequestsDoesNotHoldUpAnotherSessionOfItsProgram(t *testing.T) {
	counter := New()
	for range 50 {
		counter.Enter(agent, 1)
	}
	if found := counter.Enter(agent, 2); found.Later != time.Second {
		t.Errorf("got %s", found.Later)
	}
}

func TestANewSessionForEachRequestGainsNothing(t *testing.T) {
	counter, honest := New(), Program{"research", "llama", "honest"}
	var invented, one *Place
	for number := range 20 {
		invented, one = counter.Enter(agent, Session(number)), counter.Enter(honest, 7)
	}
	if invented.Later != one.Later {
		t.Errorf("invented sessions: got %s; one session: %s", invented.Later, one.Later)
	}
}

func TestPoolsAndTeamsAreCountedApart(t *testing.T) {
	counter := New()
	counter.Enter(agent, 1)
	for _, program := range []Program{{"research", "qwen", "agent"}, {"web", "llama", "agent"}} {
		if found := counter.Enter(program, 1); found.Later != 0 {
			t.Errorf("%v: got %s", program, found.Later)
		}
	}
}

func TestNothingIsKeptOfRequestsThatEnded(t *testing.T) {
	counter := New()
	var running sync.WaitGroup
	for session := range Session(100) {
		running.Add(1)
		go func() {
			defer running.Done()
			place := counter.Enter(agent, session%7)
			place.Leave()
			place.Leave() // the second one has no effect
		}()
	}
	running.Wait()
	var none *Place
	none.Leave()
	if found := counter.Len(); found != 0 {
		t.Errorf("got %d programs", found)
	}
}
