package openai

import (
	"bytes"
	"testing"
)

func TestASaltReplacesTheClientsOwnAndNothingElse(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"m"}`:                                   `{"cache_salt":"S()","model":"m"}`,
		"\n { \"model\" : \"m\"}":                         "\n {\"cache_salt\":\"S()\", \"model\" : \"m\"}",
		`{"model":"m", "cache_salt" : "mine" ,"x":[1]}`:   `{"model":"m", "cache_salt" : "S(mine)" ,"x":[1]}`,
		`{"cache\u005fsalt":"m\u0069ne","model":"m"}`:     `{"cache\u005fsalt":"S(mine)","model":"m"}`,
		`{"model":"m","cache_salt":null}`:                 `{"model":"m","cache_salt":"S()"}`,
		`{"x":{"cache_salt":"inner"},"seed":12345678901}`: `{"cache_salt":"S()","x":{"cache_salt":"inner"},"seed":12345678901}`,
	} {
		parts, fault := Salted([]byte(body), func(given string) string { return "S(" + given + ")" })
		if got := string(bytes.Join(parts, nil)); fault != nil || got != want {
			t.Errorf("%s: got %s, %v", body, got, fault)
		}
	}
	for _, body := range []string{
		`{"cache_salt":""}`, `{"cache_salt":1}`, `{"cache_salt":["a"]}`, `{"cache_salt":false}`, `{"cache_salt":{}}`,
	} {
		if _, fault := Salted([]byte(body), func(string) string { return "S" }); fault == nil ||
			fault.Status != 400 || fault.Code != "invalid_type" || fault.Param != "cache_salt" {
			t.Errorf("%s: got %v", body, fault)
		}
	}
}
