package openai

import "encoding/json"

const maxCollectedBytes = 48 << 10

// Collector collects the text of a response as it passes, so that it can be stored.
type Collector struct {
	stream *events
	body   []byte
	text   []byte
	finish string
	unfit  bool
}

// NewCollector returns a collector for one response.
func NewCollector(isStream bool) *Collector {
	c := &Collector{}
	if isStream {
		c.stream = &events{found: func(data []byte) ([]byte, bool) { c.event(data); return data, false }}
	}
	return c
}

// Write takes the next piece of the body, as sent to the client.
func (c *Collector) Write(piece []byte) {
	switch {
	case c.unfit:
	case c.stream != nil:
		c.stream.pass(piece)
	case len(c.body)+len(piece) > maxCollectedBytes:
		c.unfit, c.body = true, nil
	default:
		c.body = append(c.body, piece...)
	}
}

// Text returns the whole text, and whether the response is complete and contains only text.
func (c *Collector) Text() (string, bool) {
	if c.stream == nil && !c.unfit {
		c.choices(c.body)
	}
	return string(c.text), !c.unfit && c.finish == "stop" && len(c.text) > 0
}

func (c *Collector) event(data []byte) {
	if string(data) != "[DONE]" && len(data) > 0 {
		c.choices(data)
	}
}

// spoken is the content of a choice: a whole message, or the next piece of a streamed one.
type spoken map[string]json.RawMessage

func (c *Collector) choices(document []byte) {
	var found struct {
		Choices []struct {
			Index   int     `json:"index"`
			Finish  *string `json:"finish_reason"`
			Message spoken  `json:"message"`
			Delta   spoken  `json:"delta"`
		} `json:"choices"`
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(document, &found) != nil || len(found.Choices) > 1 || !isNothing(found.Error) {
		c.unfit = true
		return
	}
	for _, choice := range found.Choices {
		if choice.Index != 0 {
			c.unfit = true
		}
		c.say(choice.Message)
		c.say(choice.Delta)
		if choice.Finish != nil {
			c.finish = *choice.Finish
		}
	}
}

// say takes the text. Any other content, such as a tool call, makes the response unfit for the cache.
func (c *Collector) say(said spoken) {
	for name, value := range said {
		switch {
		case name == "role" || isNothing(value):
		case name == "content":
			piece, _ := text(value)
			c.text = append(c.text, piece...)
		default:
			c.unfit = true
		}
	}
	if len(c.text) > maxCollectedBytes {
		c.unfit = true
	}
}

func isNothing(value json.RawMessage) bool {
	return len(value) == 0 || isEmpty(value) || string(value) == `""` || string(value) == "{}"
}
