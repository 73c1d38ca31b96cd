package reading

import (
	"encoding/json"
	"strings"
	"testing"
)

func read(text string, pieces int) (*Reader, []string) {
	var found []string
	r := &Reader{Found: func(m Member) { found = append(found, m.Name+"="+string(m.Value)) }}
	for len(text) > 0 {
		n := min(pieces, len(text))
		r.Write([]byte(text[:n]))
		text = text[n:]
	}
	return r, found
}

func TestMembersAreTheSameInPiecesOfAnySize(t *testing.T) {
	text := `{ "model" : "a\"é", "n":1, "messages":[{"role":"user"},[1.5e3,-2,true,null]], "\u0061":{} }`
	want := "model=\"a\\\"é\"|n=1|messages=[{role\":\"user\"},[1.5e3,-2,true,null]]|a={}"
	for _, size := range []int{1, 2, 7, 1000} {
		r, found := read(text, size)
		if got := strings.Join(found, "|"); !r.IsComplete() || got != want {
			t.Errorf("%d: got %v %s", size, r.IsComplete(), got)
		}
	}
}

func TestOnlyOneJSONObjectIsComplete(t *testing.T) {
	for _, text := range []string{
		`{}`, ` {"a":[]} `, `{"a":"\ud83d\ude00"}`, `{"a":-0.5E+3}`, `{"a":[[],{}]}`, "{\"a\":\"\u00e9\u4e16\U0001f600\"}",
		``, `[]`, `{`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":1}{}`, `{"a":1]`, `{"a":[1}`, `{"a":[1,]}`, `{"a":01}`, `{"a":-}`,
		`{"a":1.}`, `{"a":tru}`, `{"a":nul1}`, `{"a":"\x"}`, `{"a":"\u12g4"}`, "{\"a\":\"\n\"}", `{"a":1 2}`, `{1:2}`, `"a"`, `{"a":'b'}`,
		`{"a" "b"}`, `{"a"::1}`, `{"a":1,,"b":2}`, `{"a":+1}`, `{"a":[,1]}`, `{"a":1}}`, `{"a":1} x`,
	} {
		r, _ := read(text, 3)
		var object map[string]any
		if want := json.Unmarshal([]byte(text), &object) == nil; r.IsComplete() != want {
			t.Errorf("%q: got %v, want %v", text, r.IsComplete(), want)
		}
	}
	for _, text := range []string{"{\"a\":\"\xff\"}", "{\"a\":\"\xc3(\"}", "{\"a\":\"\xe2\x82\"}", "{\"a\":\"\x80\"}"} {
		if r, _ := read(text, 1); r.IsComplete() {
			t.Errorf("%q: bytes that are not UTF-8 must be refused", text)
		}
	}
}

func FuzzReaderAgreesWithEncodingJSON(f *testing.F) {
	f.Add(`{"a":[1,{"b":"\u0041"}]}`)
	f.Add(`{"a":1e5,"b":[[]]`)
	f.Fuzz(func(t *testing.T, text string) {
		if text != strings.ToValidUTF8(text, "?") {
			return // encoding/json accepts bytes that are not UTF-8
		}
		r, _ := read(text, 5)
		var object map[string]json.RawMessage
		want := json.Unmarshal([]byte(text), &object) == nil && object != nil
		if r.IsComplete() != want {
			t.Errorf("%q: got %v, want %v", text, r.IsComplete(), want)
		}
	})
}

func TestDepthAndMemoryOfAMemberAreLimited(t *testing.T) {
	deep := func(levels int) string {
		return `{"a":` + strings.Repeat("[", levels) + strings.Repeat("]", levels) + `}`
	}
	if r, _ := read(deep(MaxDepth-1), 1000); !r.IsComplete() {
		t.Error("the maximum depth must be accepted")
	}
	if r, _ := read(deep(MaxDepth), 1000); !r.IsBroken() {
		t.Error("more than the maximum depth must be refused")
	}
	var whole bool
	r := &Reader{Found: func(m Member) { whole = m.IsWhole || len(m.Value) > maxValueBytes }}
	r.Write([]byte(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`))
	if !r.IsComplete() || whole {
		t.Error("a long value must be cut")
	}
}

func TestNumbersThatFloatsCannotHoldAreNoticed(t *testing.T) {
	for text, want := range map[string]bool{
		"9007199254740992": false, "9007199254740993": true, "-9007199254740993": true, "1e300": false,
		"18446744073709551617": true, "[0,9007199254740993]": true, `"9007199254740993"`: false, "90071992547409930.0": false,
	} {
		var got bool
		r := &Reader{Found: func(m Member) { got = m.IsInexact }}
		r.Write([]byte(`{"seed":` + text + `}`))
		if !r.IsComplete() || got != want {
			t.Errorf("%s: got %v", text, got)
		}
	}
}

func TestListsOfNumbersAreNoticed(t *testing.T) {
	for text, want := range map[string]bool{
		"[1,2]": true, "[[1],[2]]": true, `["a"]`: false, "1": false, `[{"a":1}]`: false, "[]": false, `["1"]`: false,
	} {
		var got bool
		r := &Reader{Found: func(m Member) { got = m.HasNumbers }}
		r.Write([]byte(`{"prompt":` + text + `}`))
		if !r.IsComplete() || got != want {
			t.Errorf("%s: got %v", text, got)
		}
	}
}
