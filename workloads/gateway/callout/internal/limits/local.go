package limits

import "time"

const windowSeconds = 61

// window is the sliding window of window.lua, for one replica.
type window struct {
	seconds [windowSeconds]int64
	amounts [windowSeconds]int64
}

func (w *window) add(second, amount int64) {
	at := second % windowSeconds
	if w.seconds[at] > second {
		return // it has left the window
	}
	if w.seconds[at] < second {
		w.seconds[at], w.amounts[at] = second, 0
	}
	w.amounts[at] += amount
}

func (w *window) sum(now int64) int64 {
	var sum int64
	for at, second := range w.seconds {
		if second > now-windowSeconds && second <= now {
			sum += w.amounts[at]
		}
	}
	return sum
}

// wait returns the time until an amount fits the window.
func (w *window) wait(now time.Time, amount, limit int64) time.Duration {
	sum := w.sum(now.Unix())
	for second := now.Unix() - windowSeconds + 1; second <= now.Unix(); second++ {
		if at := second % windowSeconds; w.seconds[at] == second {
			sum -= w.amounts[at]
		}
		if sum+amount <= limit {
			return max(time.Millisecond, time.Unix(second+windowSeconds, 0).Sub(now))
		}
	}
	return time.Minute
}

// share is the part of a limit for one replica. It is at least one, so that a small limit does not
// block a team.
func share(limit, replicas int64) int64 {
	if limit == 0 {
		return 0
	}
	return max(1, limit/replicas)
}

// account is the state of a team on one replica.
type account struct {
	// requests and tokens are everything that this replica admitted in the last minute.
	requests window
	tokens   window
	month    string
	// shared is the month as the store last reported it, with what requests in flight have reserved.
	shared Cost
	// known is the ledger of this month.
	known known
	// alone is what the store does not know of the month: requests that this replica admitted alone, and
	// settlements that the store missed.
	alone Cost
	// untold is what has not been reported to the store.
	untold untold
}

// untold is what a replica admitted alone in the last minute.
type untold struct {
	requestsWindow window
	tokensWindow   window
}

func (u *untold) addAll(o untold, now int64) {
	u.requestsWindow.add(now, o.requestsWindow.sum(now))
	u.tokensWindow.add(now, o.tokensWindow.sum(now))
}

func (a *account) begin(month string) {
	if a.month < month {
		a.month = month
		a.shared, a.alone, a.known = Cost{}, Cost{}, known{}
	}
}

// admit decides alone, with this replica's share of each limit. isAway is whether there is a store, which knows
// what the other replicas have left of a month: only what it reported last is a reason to refuse for a month.
func (a *account) admit(now time.Time, b Budget, cost Cost, replicas int64, isAway bool) Decision {
	requests, tokens := share(b.RequestsPerMinute, replicas), share(b.TokensPerMinute, replicas)
	second := now.Unix()
	d := Decision{Allowed: true, UsedRequests: a.requests.sum(second), UsedTokens: a.tokens.sum(second), isLocal: true}
	switch {
	case isAway && b.TokensPerMonth > 0 && a.known.tokens >= b.TokensPerMonth:
		d.refuse(MonthTokens, 0)
	case isAway && b.NanoUSDPerMonth > 0 && a.known.nano >= b.NanoUSDPerMonth:
		d.refuse(MonthUSD, 0)
	case isSpent(b.TokensPerMonth, a.shared.Tokens, a.alone.Tokens, replicas):
		d.refuse(alone(MonthTokens, isAway))
	case isSpent(b.NanoUSDPerMonth, a.shared.NanoUSD, a.alone.NanoUSD, replicas):
		d.refuse(alone(MonthUSD, isAway))
	case requests > 0 && d.UsedRequests+1 > requests:
		d.refuse(Requests, a.requests.wait(now, 1, requests))
	case tokens > 0 && d.UsedTokens+cost.Tokens > tokens && (d.UsedTokens > 0 || cost.Tokens > b.TokensPerMinute):
		// a request above the whole share passes if the replica has used nothing
		d.refuse(Tokens, a.tokens.wait(now, cost.Tokens, tokens))
	}
	if d.Allowed {
		a.alone.add(cost)
		a.untold.requestsWindow.add(second, 1)
		a.untold.tokensWindow.add(second, cost.Tokens)
		a.count(second, cost.Tokens)
		d.UsedRequests, d.UsedTokens = d.UsedRequests+1, d.UsedTokens+cost.Tokens
	}
	// clients see the whole limit, so the shares of other replicas appear unused
	d.MonthTokens, d.MonthNanoUSD = a.shared.Tokens+a.alone.Tokens, a.shared.NanoUSD+a.alone.NanoUSD
	return d
}

func (a *account) count(second, tokens int64) {
	a.requests.add(second, 1)
	a.tokens.add(second, tokens)
}

// isSpent reports whether this replica has used its share of what was left of the month.
func isSpent(limit, shared, pending, replicas int64) bool {
	if limit == 0 {
		return false
	}
	left := limit - shared
	return left <= 0 || pending >= share(left, replicas)
}

// alone returns the reason and the pause of a replica that has used its share of a month.
func alone(reason Reason, isAway bool) (Reason, time.Duration) {
	if isAway {
		return Share, retryAfter
	}
	return reason, 0
}
