package config

import (
	"math"
	"slices"

	"gke-inference/gateway/internal/tokens"
)

// Size returns what is known about the tokens of a model.
func (c *Config) Size(model string) tokens.Model {
	if context := c.Models[model].Context; context > 0 {
		return tokens.Model{Context: context}
	}
	return tokens.Model{Context: c.DefaultContext, IsAssumed: true}
}

// NanoPerUSD is the internal unit of money: whole numbers add up across replicas without rounding.
const NanoPerUSD = 1_000_000_000

const tokensPerPrice = 1_000_000

// Permits reports whether a team may use a model. With a budget in dollars, only models with a price
// are permitted, because others would cost nothing.
func (c *Config) Permits(team *Team, model string) bool {
	if slices.Contains(team.Models, model) {
		return true
	}
	if !slices.Contains(team.Models, AllModels) {
		return false
	}
	_, hasPrice := c.Prices[model]
	return team.MonthlyUSD == 0 || hasPrice
}

// HasAllModels reports whether a team may use every model.
func (t *Team) HasAllModels() bool { return slices.Contains(t.Models, AllModels) }

// Names reports whether the file names a model, so that the model can be a metric label.
func (c *Config) Names(model string) bool {
	if _, has := c.Prices[model]; has {
		return true
	}
	for _, team := range c.Teams {
		if slices.Contains(team.Models, model) {
			return true
		}
	}
	return false
}

// NanoUSD returns the cost of tokens of a model. A model without a price costs nothing.
func (c *Config) NanoUSD(model string, prompt, completion int64) int64 {
	price := c.Prices[model]
	usd := (float64(prompt)*price.InputUSD + float64(completion)*price.OutputUSD) / tokensPerPrice
	return int64(math.Round(usd * NanoPerUSD))
}

// MonthlyNanoUSD returns a team's monthly budget; 0 means none.
func (t *Team) MonthlyNanoUSD() int64 { return int64(math.Round(t.MonthlyUSD * NanoPerUSD)) }

// longestNanoUSD is the budget of requests without a limit, which the ledger still counts: the most that a team can
// have, twice.
const longestNanoUSD = 2_000_000_000 * NanoPerUSD

// NanoUSDFor returns the monthly limit of a team's requests to a model; 0 means none. The model that answers when
// the budget is spent has a limit beyond it.
func (t *Team) NanoUSDFor(model string) int64 {
	most, spent := t.MonthlyNanoUSD(), t.WhenSpent
	switch {
	case spent == nil || spent.Model != model:
		return most
	case spent.MonthlyUSD == 0:
		return longestNanoUSD
	default:
		return most + int64(math.Round(spent.MonthlyUSD*NanoPerUSD))
	}
}

// Replaces reports whether another model answers for a model once the team's budget is spent.
func (t *Team) Replaces(model string) bool {
	return t.WhenSpent != nil && slices.Contains(t.WhenSpent.Replaces, model)
}

// ObjectiveOf returns the InferenceObjective of a team's requests to a model. Objectives belong to a
// pool: if the file names the model's pool, its name is the prefix, as in `llama-8b-batch`.
func (c *Config) ObjectiveOf(team *Team, model string) string {
	pool, has := c.Pools[model]
	if team.Objective == "" || !has {
		return team.Objective
	}
	return pool + "-" + team.Objective
}

// CredentialHeaders returns the headers that can carry a credential.
func (c *Config) CredentialHeaders() []string {
	headers := []string{"authorization", "proxy-authorization", "x-api-key", "cookie", "x-goog-iap-jwt-assertion"}
	for _, issuer := range c.JWT {
		headers = append(headers, issuer.Header)
	}
	slices.Sort(headers)
	return slices.Compact(headers)
}
