package calls

import (
	"slices"
	"testing"
)

func TestNamesOfHeadersAreLowercaseAndSeparatedByCommas(t *testing.T) {
	for _, text := range []string{"", "Server", "server,", "server, x-a", "a:b"} {
		names := Names{"kept"}
		if err := names.Set(text); err == nil || names.String() != "kept" {
			t.Errorf("%q: got %v, %v", text, names, err)
		}
	}
	var names Names
	if err := names.Set("server,x-a"); err != nil || names.String() != "server,x-a" {
		t.Errorf("got %v, %v", names, err)
	}
}

func TestOnlyHeadersThatAMessageHasAreFound(t *testing.T) {
	got := Names{"server", "x-a", "x-b"}.In(map[string][]string{"x-b": {"1"}, "server": {""}, "date": {"d"}})
	if !slices.Equal(got, []string{"server", "x-b"}) {
		t.Errorf("got %v", got)
	}
}
