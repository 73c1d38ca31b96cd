package limits

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sort"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"gke-inference/gateway/callout/internal/config"
)

func (c *cloud) settle(replica int, held *Reservation, tokens int64) Cost {
	return c.replicas[replica].Settle(context.Background(), held, Cost{tokens, tokens * 1000})
}

// restart replaces a replica, whose memory is lost.
func (c *cloud) restart(replica int) {
	c.replicas[replica] = New(func() { c.errors.Add(1) })
	c.replicas[replica].clock = func() time.Time { return c.now }
	found := &config.Config{Replicas: int64(len(c.replicas)), Store: &config.Store{Address: c.server.Addr()}}
	if err := c.replicas[replica].Use(found); err != nil {
		c.t.Fatal(err)
	}
}

func TestRequestsInFlightHoldTheRestOfABudgetForAMoment(t *testing.T) {
	c := newCloud(t, 2)
	budget := Budget{TokensPerMonth: 100}
	_, held := c.admit(0, budget, 100)
	if decision, _ := c.admit(1, budget, 10); decision.Reason != HeldTokens || decision.Retry != time.Second {
		t.Errorf("got %+v", decision)
	}
	c.settle(0, held, 40)
	decision, held := c.admit(1, budget, 60)
	if !decision.Allowed {
		t.Fatalf("got %+v after the answer was shorter", decision)
	}
	c.settle(1, held, 60)
	if decision, _ := c.admit(0, budget, 10); decision.Reason != MonthTokens {
		t.Errorf("got %+v", decision)
	}
}

func TestWhatADeadReplicaHadReservedIsFreeAgain(t *testing.T) {
	c := newCloud(t, 2)
	budget := Budget{TokensPerMonth: 100}
	c.admit(0, budget, 100)
	c.pass(lease)
	if decision, _ := c.admit(1, budget, 100); !decision.Allowed || decision.MonthTokens != 100 {
		t.Errorf("got %+v", decision)
	}
}

func TestALongAnswerKeepsItsReservation(t *testing.T) {
	c := newCloud(t, 2)
	budget := Budget{TokensPerMonth: 100}
	_, held := c.admit(0, budget, 100)
	for range 100 {
		c.pass(10 * time.Second)
		c.replicas[0].Catch(context.Background())
	}
	if decision, _ := c.admit(1, budget, 1); decision.Reason != HeldTokens {
		t.Errorf("got %+v", decision)
	}
	if spent := c.settle(0, held, 30); spent.Tokens != 30 {
		t.Errorf("got %+v", spent)
	}
}

func TestAMonthOutlivesItsStore(t *testing.T) {
	c := newCloud(t, 3)
	budget := Budget{TokensPerMonth: 1000}
	for replica := range 3 {
		_, held := c.admit(replica, budget, 100)
		c.settle(replica, held, 100)
	}
	_, long := c.admit(0, budget, 100)
	c.pass(time.Second)
	c.server.FlushAll()
	// the first replica to ask knows only its own view of the month
	decision, first := c.admit(0, budget, 10)
	if !decision.Allowed || decision.MonthTokens != 110 && decision.MonthTokens != 310 {
		t.Errorf("got %+v", decision)
	}
	c.settle(0, first, 10)
	c.settle(0, long, 50)
	for _, replica := range []int{1, 2, 0} {
		decision, _ = c.admit(replica, budget, 0)
	}
	if decision.MonthTokens != 360 {
		t.Errorf("got %d tokens of the month, want all that was used before and after", decision.MonthTokens)
	}
}

// sees returns what a replica knows of the month of a team.
func (c *cloud) sees(replica int, team string) int64 {
	l := c.replicas[replica]
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.account(team, monthOf(c.now)).known.tokens
}

func TestAReplicaTellsOfAChangeWhenItHasCaughtUp(t *testing.T) {
	c := newCloud(t, 2)
	_, held := c.admit(0, Budget{TokensPerMonth: 1000}, 100)
	c.settle(0, held, 70)
	c.replicas[1].Catch(context.Background())
	began := c.now
	c.pass(time.Minute) // in which the first replica settles what the store missed
	c.replicas[1].Catch(context.Background())
	asked := 0
	c.replicas[0].clock = func() time.Time {
		if asked++; asked == 1 {
			return began
		}
		return c.now
	}
	c.replicas[0].Catch(context.Background())
	c.replicas[1].Catch(context.Background())
	if found := c.sees(1, "team"); found != 70 {
		t.Errorf("the other replica knows of %d tokens, want 70", found)
	}
}

func TestAReplicaThatWasCutOffReadsWhatOthersChangedInANewStore(t *testing.T) {
	c := newCloud(t, 2)
	for replica := range 2 {
		c.replicas[replica].Catch(context.Background())
	}
	c.pass(time.Second)
	c.server.FlushAll()
	_, held := c.replicas[0].Admit(context.Background(), "other", Budget{TokensPerMonth: 1000}, Cost{100, 0}, c.now)
	c.settle(0, held, 70)
	c.replicas[0].Catch(context.Background())
	c.pass(time.Minute)
	c.replicas[0].Catch(context.Background())
	for range 2 {
		c.pass(time.Minute)
		c.replicas[1].Catch(context.Background())
	}
	if found := c.sees(1, "other"); found != 70 {
		t.Errorf("the replica knows of %d tokens, want 70", found)
	}
}

func TestALongOutageTakesNoMemoryForEachRequest(t *testing.T) {
	c := newCloud(t, 1)
	budget := Budget{TokensPerMonth: 1_000_000}
	c.admit(0, budget, 0)
	c.server.SetError("LOADING")
	want := int64(0)
	for range 4 {
		for range 100 {
			decision, held := c.admit(0, budget, 100)
			if !decision.Allowed {
				t.Fatalf("got %+v", decision)
			}
			c.settle(0, held, 70)
			want += 70
		}
		c.pass(time.Second)
	}
	if found := len(c.replicas[0].pending); found > 20 {
		t.Errorf("%d settlements wait", found)
	}
	c.server.SetError("")
	c.pass(retryAfter + StoreTimeout)
	for range 2 {
		c.replicas[0].Catch(context.Background())
	}
	if decision, _ := c.admit(0, budget, 0); decision.MonthTokens != want {
		t.Errorf("the store has %d tokens of the month, want %d", decision.MonthTokens, want)
	}
}

// lossy loses replies of calls that the store has made.
type lossy struct {
	choose *rand.Rand
	share  float64
}

func (l lossy) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l lossy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l lossy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, call redis.Cmder) error {
		err := next(ctx, call)
		if err == nil && l.choose.Float64() < l.share {
			err = errors.New("the reply was lost")
			call.SetErr(err)
		}
		return err
	}
}

func TestARequestWhoseReplyWasLostIsInTheLedgerOnce(t *testing.T) {
	c := newCloud(t, 1)
	c.restart(0)
	budget := Budget{TokensPerMonth: 1 << 40}
	c.replicas[0].store.client.AddHook(lossy{rand.New(rand.NewPCG(1, 2)), 0.3})
	var want int64
	for range 300 {
		_, held := c.admit(0, budget, 100)
		c.settle(0, held, 60)
		want += 60
		c.pass(2 * time.Second)
		c.replicas[0].Catch(context.Background())
	}
	c.restart(0)
	c.pass(lease)
	if decision, _ := c.admit(0, budget, 0); decision.MonthTokens != want {
		t.Errorf("the ledger has %d tokens, want %d", decision.MonthTokens, want)
	}
}

// flight is a request between its admission and its end.
type flight struct {
	at      time.Time
	team    int
	tokens  int64
	used    int64
	lasts   time.Duration
	tries   int
	replica int
	life    int
	held    *Reservation
}

// day is a day of a platform whose gates and store die.
type day struct {
	*cloud
	choose   *rand.Rand
	names    []string
	budgets  []Budget
	lives    []int
	backs    []time.Time // when a dead replica is back
	settled  []int64     // what engines counted of answers that ended
	lost     int64       // what they counted of requests whose gate died
	refused  int
	answered int
	problems []string
	isBehind []bool // whether a replica has yet to read what another one told
}

const (
	dayTeams    = 1000
	dayRequests = 2400
	mostTokens  = 4000
	secondsADay = 86_400
)

// A team's budget is refused only when it is used, is exceeded by at most one answer for each replica, and the
// ledger has what the engines counted, while gates and the store die at random times for a whole day.
func TestBudgetsAreExactThroughADayOfFaults(t *testing.T) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	aDay(t, 1)
}

func aDay(t *testing.T, seed uint64) {
	d := &day{cloud: newCloud(t, 3), choose: rand.New(rand.NewPCG(seed, 33)), lives: make([]int, 3), backs: make([]time.Time, 3), isBehind: make([]bool, 3)}
	d.settled = make([]int64, dayTeams)
	for team := range dayTeams {
		d.names = append(d.names, fmt.Sprintf("team-%d", team))
		d.budgets = append(d.budgets, Budget{TokensPerMonth: 1200 + d.choose.Int64N(5000)})
	}
	for replica := range d.replicas {
		d.begin(replica)
	}
	d.run()
	d.check(seed)
}

func (d *day) begin(replica int) {
	d.restart(replica)
	d.replicas[replica].store.client.AddHook(lossy{d.choose, 0.001})
}

func (d *day) arrivals() []*flight {
	found := make([]*flight, 0, dayRequests)
	for range dayRequests {
		tokens := 50 + d.choose.Int64N(mostTokens-50)
		team := d.choose.IntN(dayTeams)
		if d.choose.IntN(10) == 0 {
			team = d.choose.IntN(20) // some teams have several requests at once
		}
		found = append(found, &flight{
			at: start.Add(time.Duration(d.choose.Int64N(int64(secondsADay * time.Second)))), team: team, tokens: tokens,
			used: tokens/10 + d.choose.Int64N(tokens*9/10), lasts: time.Duration(d.choose.ExpFloat64() * float64(8*time.Second)),
		})
	}
	return found
}

func (d *day) run() {
	waiting, flying := d.arrivals(), []*flight(nil)
	order := func(of []*flight) { sort.SliceStable(of, func(a, b int) bool { return of[a].at.Before(of[b].at) }) }
	order(waiting)
	var storeBack time.Time
	for second := 0; second < secondsADay+600; second++ {
		d.now = start.Add(time.Duration(second) * time.Second)
		d.server.SetTime(d.now)
		if second%600 == 0 {
			d.server.FastForward(10 * time.Minute)
		}
		for replica := range d.replicas {
			if d.choose.IntN(3600) == 0 && d.backs[replica].IsZero() { // every hour
				d.lives[replica]++
				d.backs[replica] = d.now.Add(time.Duration(5+d.choose.IntN(15)) * time.Second)
			}
			if back := d.backs[replica]; !back.IsZero() && !back.After(d.now) {
				d.backs[replica] = time.Time{}
				d.begin(replica)
				d.fallBehind()
			}
		}
		if d.choose.IntN(10_800) == 0 && storeBack.IsZero() { // every three hours
			d.server.FlushAll()
			d.server.SetError("LOADING")
			storeBack = d.now.Add(time.Duration(5+d.choose.IntN(35)) * time.Second)
		}
		if !storeBack.IsZero() && !storeBack.After(d.now) {
			storeBack = time.Time{}
			d.server.SetError("")
			d.fallBehind()
		}
		for len(waiting) > 0 && !waiting[0].at.After(d.now) {
			one := waiting[0]
			waiting = waiting[1:]
			if d.send(one) {
				flying = append(flying, one)
			} else if one.tries > 0 {
				waiting = append(waiting, one)
				order(waiting)
			}
		}
		flying = d.end(flying)
		for replica := range d.replicas {
			if d.backs[replica].IsZero() {
				d.catch(replica, second%5 == 0)
			}
		}
	}
	d.server.SetError("")
	d.now = d.now.Add(time.Minute)
	d.server.SetTime(d.now)
	for _, one := range d.replicas {
		one.Catch(context.Background())
	}
	if len(waiting)+len(flying) > 0 {
		d.problems = append(d.problems, "requests were never answered")
	}
}

// catch lets a replica renew its reservations, and exchange ledgers where there is something to tell or to read.
func (d *day) catch(replica int, isTime bool) {
	one := d.replicas[replica]
	tells := len(one.pending)+len(one.copies.changed) > 0
	if !tells && !d.isBehind[replica] && (!isTime || len(one.inFlight) == 0) {
		return // it would change nothing
	}
	one.Catch(context.Background())
	if tells {
		d.fallBehind()
	}
	d.isBehind[replica] = !one.copies.readUntil.Equal(d.now)
}

// fallBehind notes that every replica has something to read.
func (d *day) fallBehind() {
	for replica := range d.isBehind {
		d.isBehind[replica] = true
	}
}

// send admits a request at a replica that lives, and reports whether it is in flight.
func (d *day) send(one *flight) bool {
	one.replica = d.choose.IntN(len(d.replicas))
	for range d.replicas {
		if d.backs[one.replica].IsZero() {
			break
		}
		one.replica = (one.replica + 1) % len(d.replicas)
	}
	if !d.backs[one.replica].IsZero() { // none lives
		one.tries++
		one.at = d.now.Add(time.Second)
		return false
	}
	one.life = d.lives[one.replica]
	budget := d.budgets[one.team]
	decision, held := d.replicas[one.replica].Admit(context.Background(), d.names[one.team], budget, Cost{Tokens: one.tokens}, d.now)
	switch {
	case decision.Allowed:
		one.held, one.at = held, d.now.Add(one.lasts)
		return true
	case decision.Reason == MonthTokens:
		one.tries = 0
		d.refused++
		if d.settled[one.team] < budget.TokensPerMonth {
			d.problems = append(d.problems, "a team was refused before its budget was used")
		}
	default:
		one.tries++
		one.at = d.now.Add(max(decision.Retry, time.Second))
	}
	return false
}

func (d *day) end(flying []*flight) []*flight {
	left := flying[:0]
	for _, one := range flying {
		switch {
		case one.life != d.lives[one.replica]:
			d.lost += one.used
		case !one.at.After(d.now):
			d.answered++
			d.settled[one.team] += one.used
			d.replicas[one.replica].Settle(context.Background(), one.held, Cost{Tokens: one.used})
		default:
			left = append(left, one)
		}
	}
	return left
}

func (d *day) check(seed uint64) {
	var all, ledger, apart int64
	for team, used := range d.settled {
		limit := d.budgets[team].TokensPerMonth
		if used > limit+int64(len(d.replicas))*mostTokens {
			d.t.Errorf("seed %d: %s used %d of %d", seed, d.names[team], used, limit)
		}
		key, _ := monthKeys(d.names[team], monthOf(d.now))
		found, _ := strconv.ParseInt(d.server.HGet(key, "t"), 10, 64)
		all, ledger = all+used, ledger+found
		apart += max(used-found, found-used)
	}
	for _, problem := range d.problems {
		d.t.Errorf("seed %d: %s", seed, problem)
	}
	d.t.Logf("seed %d: %d answered, %d refused, %d errors of the store; engines %d, ledger %d, apart %d, lost with gates %d",
		seed, d.answered, d.refused, d.errors.Load(), all+d.lost, ledger, apart, d.lost)
	if apart > all/1000 {
		d.t.Errorf("seed %d: the ledgers differ from the engines by %d of %d tokens", seed, apart, all)
	}
	if d.refused < dayTeams/10 {
		d.t.Errorf("seed %d: only %d requests were refused", seed, d.refused)
	}
}
