package identity

import "gke-inference/gateway/callout/internal/config"

// BehalfHeader names the team that a request acts for: the workers of batches and streams send it.
const BehalfHeader = "x-gki-on-behalf-of"

const (
	tokenID       = "jwt"
	certificateID = "certificate"
)

// ActsFor returns the team that the request of a caller acts for, and whether it may. By default it is
// the caller's own. Only an API key of a team with acts_for_teams may name another one: a request that
// names a team without this permission is refused, because as one of its own team it would have other
// guards, limits and cached responses than its sender expects.
func ActsFor(c *config.Config, caller Caller, headers map[string][]string) (team string, isPermitted bool) {
	named := headers[BehalfHeader]
	if len(named) == 0 {
		return caller.Team, true
	}
	own := c.Teams[caller.Team]
	isKey := caller.KeyID != "" && caller.KeyID != tokenID && caller.KeyID != certificateID
	if len(named) > 1 || own == nil || !own.ActsForTeams || !isKey {
		return "", false
	}
	return named[0], true
}
