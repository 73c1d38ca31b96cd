package credential

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// Armor calls Model Armor's API with the program's identity
// (docs.cloud.google.com/model-armor/reference/rest/v1/projects.locations.templates/sanitizeUserPrompt).
type Armor struct {
	store *Store
	// endpoint replaces that of a region, in tests.
	endpoint string
}

// NewArmor returns a client.
func NewArmor(store *Store) *Armor {
	return &Armor{store: store, endpoint: fromEnv("MODEL_ARMOR_ENDPOINT", "")}
}

// failure is the result of a call of which no filter ran.
const failure = "FAILURE"

// Blocks reports whether the filters of a template, projects/P/locations/L/templates/T, find something in a
// prompt.
func (a *Armor) Blocks(ctx context.Context, template, prompt string) (bool, error) {
	endpoint := a.endpoint
	if endpoint == "" {
		location := strings.Split(template, "/")[3] // the configuration has been validated
		endpoint = "https://modelarmor." + location + ".rep.googleapis.com"
	}
	var answer struct {
		Result struct {
			Match string `json:"filterMatchState"`
			Ended string `json:"invocationResult"`
		} `json:"sanitizationResult"`
	}
	body := map[string]any{"userPromptData": map[string]any{"text": prompt}}
	url := endpoint + "/v1/" + template + ":sanitizeUserPrompt"
	if err := a.store.call(ctx, http.MethodPost, url, body, &answer); err != nil {
		return false, err
	}
	switch {
	case answer.Result.Match == "MATCH_FOUND":
		return true, nil
	case answer.Result.Match == "NO_MATCH_FOUND" && answer.Result.Ended != failure:
		return false, nil
	}
	return false, fmt.Errorf("POST %s: no verdict, got %q of %q", url, answer.Result.Match, answer.Result.Ended)
}
