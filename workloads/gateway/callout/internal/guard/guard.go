// Package guard calls guards: services that check the texts of prompts and responses, and pass, mask or
// block them.
//
// No text is logged or stored. A setting of each guard decides what happens while it is unavailable:
// open passes the text and counts it, closed refuses the request.
package guard

import (
	"context"
	"time"

	"gke-inference/gateway/callout/internal/config"
	"gke-inference/gateway/callout/internal/openai"
	"gke-inference/gateway/internal/texts"
)

// Outcomes of a check, as counted in the metric.
const (
	allowed      = "allow"
	blocked      = "block"
	replaced     = "replace"
	FailedOpen   = "failed_open"
	failedClosed = "failed_closed"
)

// Text is a text of a request or response, with the role of its message.
type Text struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Block is the reason why a text is blocked.
type Block struct {
	Guard   string
	Message string
}

// Away is the error of a guard that fails closed and returned no verdict.
type Away struct{ Guard string }

// Error returns a message with the name of the guard.
func (a *Away) Error() string { return "guard " + a.Guard + " gave no verdict" }

// Observe counts a check by guard, phase and outcome.
type Observe func(guard, phase, outcome string, took time.Duration)

// Checks are the guards for one phase of a request, in order.
type Checks struct {
	Guards  []config.NamedGuard
	Phase   string
	Model   string
	Team    string
	Client  *Client
	Observe Observe
}

// IsNone reports whether there are no guards.
func (c *Checks) IsNone() bool { return c == nil || len(c.Guards) == 0 }

// Check sends the texts to each guard, and returns them with masked parts if a guard masks. The error
// can be Away.
func (c *Checks) Check(ctx context.Context, asked []Text) ([]Text, *Block, error) {
	if len(asked) == 0 {
		return asked, nil, nil
	}
	for _, guard := range c.Guards {
		began := time.Now()
		verdict, err := c.Client.check(ctx, guard.Guard, question{c.Phase, c.Model, c.Team, asked})
		if ctx.Err() != nil { // the client disconnected; not a failure of the guard
			return nil, nil, &Away{guard.Name}
		}
		outcome := verdict.Action
		if err != nil {
			outcome = FailedOpen
			if guard.FailsClosed() {
				outcome = failedClosed
			}
		}
		c.Observe(guard.Name, c.Phase, outcome, time.Since(began))
		switch outcome {
		case failedClosed:
			return nil, nil, &Away{guard.Name}
		case blocked:
			return nil, &Block{guard.Name, verdict.Message}, nil
		case replaced:
			asked = verdict.Messages
		}
	}
	return asked, nil, nil
}

// Unchecked counts a text that could not be sent to any guard, and reports whether it may pass: only if
// every guard fails open.
func (c *Checks) Unchecked() error {
	for _, guard := range c.Guards {
		if guard.FailsClosed() {
			c.Observe(guard.Name, c.Phase, failedClosed, 0)
			return &Away{guard.Name}
		}
		c.Observe(guard.Name, c.Phase, FailedOpen, 0)
	}
	return nil
}

// Prompt checks the texts of a request, and returns the body to forward.
func (c *Checks) Prompt(ctx context.Context, body []byte, found []texts.Text) ([]byte, *openai.Error) {
	masked, block, away := c.Check(ctx, textsOf(found))
	switch {
	case away != nil:
		return nil, openai.Unavailable("A guardrail of this model cannot be reached at the moment.")
	case block != nil:
		return nil, openai.ContentFiltered(block.Message)
	}
	spliced, canReplace := texts.Splice(body, found, contentsOf(masked))
	if !canReplace {
		return nil, openai.ContentFiltered("The name of a field has a text that must be masked.")
	}
	return spliced, nil
}

// Answer checks the whole body of a response and returns the body for the client.
func (c *Checks) Answer(ctx context.Context, path string, body []byte) ([]byte, *openai.Error) {
	found, isReadable := texts.Answer(path, body)
	if !isReadable {
		if c.Unchecked() != nil {
			return nil, openai.Unavailable("A guardrail of this model could not read the response.")
		}
		return body, nil
	}
	masked, block, away := c.Check(ctx, textsOf(found))
	if away != nil {
		return nil, openai.Unavailable("A guardrail of this model cannot be reached at the moment.")
	}
	if block == nil {
		if spliced, canReplace := texts.Splice(body, found, contentsOf(masked)); canReplace {
			return spliced, nil
		}
	}
	return texts.Filtered(path, c.Model, body, time.Now()), nil
}

func textsOf(found []texts.Text) []Text {
	all := make([]Text, len(found))
	for at, one := range found {
		all[at] = Text{one.Role, one.Content}
	}
	return all
}

func contentsOf(found []Text) []string {
	contents := make([]string, len(found))
	for at, one := range found {
		contents[at] = one.Content
	}
	return contents
}
