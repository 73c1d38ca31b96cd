package openai

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// growing is a text of a stream, of which a part waits for its check.
type growing struct {
	held string
	// fresh is how many bytes came after the last check.
	fresh int
}

func (g *growing) add(content string) {
	g.held += content
	g.fresh += len(content)
}

// isDue reports whether the text has grown by a window.
func (g *growing) isDue() bool {
	last, _ := utf8.DecodeLastRuneInString(strings.TrimRightFunc(g.held, unicode.IsSpace))
	isSentence := g.fresh >= sentenceBytes && strings.ContainsRune(".!?…。！？", last)
	return g.fresh >= windowBytes || isSentence
}

// release replaces the text by what is clean of it, and returns the part that passes.
func (g *growing) release(which Which, clean string) string {
	cut := len(clean)
	if which == DueChoices {
		cut = cutOf(clean)
	}
	g.held, g.fresh = clean[cut:], 0
	return clean[:cut]
}

// heldTexts returns the texts to check.
func heldTexts[T interface{ text() string }](meant []T) []string {
	found := make([]string, len(meant))
	for at, one := range meant {
		found[at] = one.text()
	}
	return found
}

func (g *growing) text() string { return g.held }
