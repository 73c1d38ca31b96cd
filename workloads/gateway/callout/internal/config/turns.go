package config

import (
	"fmt"
	"slices"
)

// Turns has the headers by which the requests of a session are known.
type Turns struct {
	// SessionHeaders are lowercase names. The first one that a request has counts.
	SessionHeaders []string `json:"session_headers"`
}

func (c *Config) checkTurns() error {
	if c.Turns == nil {
		return nil
	}
	for number, name := range c.Turns.SessionHeaders {
		if !headerTop.MatchString(name) || slices.Contains(c.Turns.SessionHeaders[:number], name) {
			return fmt.Errorf("turns.session_headers[%d]: must be the lowercase name of another header, got %q", number, name)
		}
	}
	return nil
}
