package openai

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestARequestIsReadWithoutItsPrompt(t *testing.T) {
	body := `{"messages":[{"role":"user","content":"a \"model\": \"x\" }{"}],"stream":true,
		"stream_options":{"include_usage":true},"max_tokens":7,"n":2,"model":"org\/m"}`
	found, fault := ParseRequest([]byte(body), 512)
	if fault != nil {
		t.Fatal(fault)
	}
	want := Request{Model: "org/m", Stream: true, IncludeUsage: true, PromptTokens: int64(len(body)) / 4, MaxTokens: 14}
	if found != want {
		t.Errorf("got %+v, want %+v", found, want)
	}
}

func TestAnAnswerWithoutABoundHasTheDefault(t *testing.T) {
	for body, want := range map[string]int64{
		`{"model":"m"}`:                   512,
		`{"model":"m","max_tokens":null}`: 512,
		`{"model":"m","max_tokens":9,"max_completion_tokens":3}`:   3,
		`{"model":"m","max_output_tokens":4}`:                      4,
		`{"model":"m","max_tokens":10,"n":null,"best_of":5}`:       50,
		`{"model":"m","max_tokens":0,"stream":null}`:               0,
		`{"model":"m","nested":{"max_tokens":9,"model":"other"}}`:  512,
		"\n {\"model\" : \"m\" , \"max_tokens\" : 6 }":             6,
		`{"input":["model","stream",{"model":1}],"model":"m"}`:     512,
		`{"model":"m","prompt":"\\","max_tokens":5,"x":[[["]"]]]}`: 5,
	} {
		found, fault := ParseRequest([]byte(body), 512)
		if fault != nil || found.MaxTokens != want {
			t.Errorf("%s: got %d and %v, want %d", body, found.MaxTokens, fault, want)
		}
	}
}

func TestHostileBodiesAreRefused(t *testing.T) {
	for body, code := range map[string]string{
		``:                                    "invalid_json",
		`null`:                                "invalid_json",
		`[{"model":"m"}]`:                     "invalid_json",
		`{"model":"m"`:                        "invalid_json",
		`{"model":"m"} {"model":"n"}`:         "invalid_json",
		`{"model":"m","t":NaN}`:               "invalid_json",
		"\xef\xbb\xbf{\"model\":\"m\"}":       "invalid_json",
		strings.Repeat(`{"a":`, 20_000):       "invalid_json",
		`{"model":"m","model":"n"}`:           "duplicate_key",
		`{"model":"m","mod\u0065l":"n"}`:      "duplicate_key",
		`{"model":"m","stream":0,"stream":1}`: "duplicate_key",
		`{"messages":[]}`:                     "invalid_model",
		`{"model":["m"]}`:                     "invalid_model",
		`{"model":null}`:                      "invalid_model",
		`{"model":""}`:                        "invalid_model",
		`{"Model":"m"}`:                       "invalid_model",
		`{"model":"` + strings.Repeat("m", 1<<17) + `"}`: "invalid_model",
		`{"model":"m","stream":"yes"}`:                   "invalid_type",
		`{"model":"m","max_tokens":-1}`:                  "invalid_type",
		`{"model":"m","max_tokens":1e30}`:                "invalid_type",
		`{"model":"m","max_tokens":"9"}`:                 "invalid_type",
		`{"model":"m","n":0}`:                            "invalid_type",
		`{"model":"m","n":9999999}`:                      "invalid_type",
	} {
		_, fault := ParseRequest([]byte(body), 512)
		if fault == nil || fault.Code != code || fault.Status != 400 {
			t.Errorf("%.60s: got %v, want %s", body, fault, code)
		}
	}
}

func TestOnlyPlainJSONInUTF8IsABody(t *testing.T) {
	for _, one := range []struct {
		contentType, encoding string
		ok                    bool
	}{
		{"application/json", "", true},
		{"Application/JSON; charset=UTF-8", "identity", true},
		{"application/json; charset=utf-16", "", false},
		{"text/plain", "", false},
		{"multipart/form-data; boundary=x", "", false},
		{"", "", false},
		{"application/json", "gzip", false},
	} {
		fault := JSONContentType(one.contentType, one.encoding)
		if (fault == nil) != one.ok || (fault != nil && fault.Status != 415) {
			t.Errorf("%+v: got %v", one, fault)
		}
	}
}

func TestErrorsHaveOpenAIsShape(t *testing.T) {
	fault := ModelNotFound("m\"\n")
	var body struct {
		Error struct {
			Message, Type, Code string
			Param               *string
		}
	}
	if err := json.Unmarshal(fault.Body(), &body); err != nil {
		t.Fatal(err)
	}
	if body.Error.Code != "model_not_found" || *body.Error.Param != "model" || body.Error.Type != "invalid_request_error" {
		t.Errorf("got %s", fault.Body())
	}
	if !bytes.Contains(Unauthorized().Body(), []byte(`"param":null`)) {
		t.Errorf("got %s", Unauthorized().Body())
	}
}
