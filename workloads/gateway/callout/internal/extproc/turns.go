package extproc

import (
	"strconv"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"gke-inference/gateway/callout/internal/openai"
	"gke-inference/gateway/callout/internal/turns"
	"gke-inference/gateway/internal/calls"
)

// turnHeaders are the milliseconds after which a waiting request is due. The queue of a team is in this order with
// the picker's slo-deadline-ordering-policy (gateway-api-inference-extension v1.5.0 and llm-d-router).
var turnHeaders = []string{"x-slo-ttft-ms", "x-llm-d-slo-ttft-ms"}

// noSession is the session of requests without an id and a conversation: a program has one.
const noSession turns.Session = 0

// takeTurn counts a request that is passed on, and adds its place in the queue of its team.
func (e *exchange) takeTurn(mutation *extproc.HeaderMutation) {
	if e.config.Turns == nil {
		return
	}
	pool, has := e.config.Pools[e.request.Model]
	if !has {
		pool = e.request.Model
	}
	program := turns.Program{Team: e.caller.Team, Pool: pool, Name: e.program()}
	e.place = e.Turns.Enter(program, e.session())
	set := map[string]string{}
	for _, name := range turnHeaders {
		set[name] = strconv.FormatInt(e.place.Later.Milliseconds(), 10)
	}
	mutation.SetHeaders = append(mutation.SetHeaders, calls.Options(set)...)
}

// program returns the credential of a request, or the address of a caller without one.
func (e *exchange) program() string {
	if e.caller.KeyID == "" {
		return calls.ClientAddress(e.headers, e.ForwardedHops)
	}
	return e.caller.KeyID + " " + e.caller.Subject
}

func (e *exchange) session() turns.Session {
	for _, name := range e.config.Turns.SessionHeaders {
		if id := calls.First(e.headers, name); id != "" {
			return turns.Session(openai.Digest(id))
		}
	}
	if e.kind == prompt && e.form == nil {
		if digest, has := openai.Conversation(e.path, e.body); has {
			return turns.Session(digest)
		}
	}
	return noSession
}
