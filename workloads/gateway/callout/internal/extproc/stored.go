package extproc

import (
	"net/http"
	"regexp"
	"time"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"gke-inference/gateway/callout/internal/limits"
	"gke-inference/gateway/callout/internal/openai"
	"gke-inference/gateway/internal/calls"
)

// teamHeader identifies the caller's team to the service of the Files and Batches APIs. It overwrites a
// header of this name from the client.
const teamHeader = "x-gki-team"

// storedPaths are the paths of the Files and Batches APIs. They have only one spelling, so that no
// proxy can read them as another path.
var storedPaths = regexp.MustCompile(`^/v1/(files(/[A-Za-z0-9_-]+(/content)?)?|batches(/[A-Za-z0-9_-]+(/cancel)?)?)$`)

func storedKind(method string) (requestKind, *openai.Error) {
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodDelete:
		return stored, nil
	default:
		return stored, openai.MethodNotAllowed(method)
	}
}

// admitStored counts a call of the Files or Batches API as a request of the team. It uses no tokens, so
// a team whose month is spent still gets its answers.
func (e *exchange) admitStored(now time.Time) *openai.Error {
	budget := limits.Budget{RequestsPerMinute: e.team.RequestsPerMinute}
	// nothing to settle: what it costs is known
	e.decision, _ = e.Limiter.Admit(e.stream.Context(), e.caller.Team, budget, limits.Cost{}, now)
	if e.decision.Allowed {
		return nil
	}
	return openai.RateLimited("requests", budget.RequestsPerMinute, e.decision.Retry)
}

// passOn forwards a probe, or a call of the Files or Batches API, unchanged. The latter names no model, its
// body can be a form of 200 MB, and the requests in it are counted one by one when they come through the
// gateway.
func (e *exchange) passOn() error {
	mutation := upstreamMutation(e.headers, e.config, e.caller.Team, "")
	set := calls.Options(map[string]string{teamHeader: e.caller.Team})
	mutation.SetHeaders = append(mutation.SetHeaders, set...)
	mutation.RemoveHeaders = without(mutation.RemoveHeaders, teamHeader)
	e.decided = true
	return e.stream.Send(calls.RequestHeaders(mutation))
}

func (e *exchange) passPiece(message *extproc.HttpBody) error {
	return calls.EachPart(message.GetBody(), message.GetEndOfStream(), e.sendRequest)
}

func without(names []string, name string) []string {
	kept := make([]string, 0, len(names))
	for _, each := range names {
		if each != name {
			kept = append(kept, each)
		}
	}
	return kept
}
