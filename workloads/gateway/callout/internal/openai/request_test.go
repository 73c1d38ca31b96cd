package openai

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gke-inference/gateway/internal/apierror"
	"gke-inference/gateway/internal/tokens"
)

func known(string) tokens.Model { return tokens.Model{Context: 512} }

func TestARequestIsReadWithoutItsPrompt(t *testing.T) {
	body := `{"messages":[{"role":"user","content":"a \"model\": \"x\" }{"}],"stream":true,
		"stream_options":{"include_usage":true},"max_tokens":7,"n":2,"model":"org\/m"}`
	found, fault := ParseRequest("/v1/chat/completions", []byte(body), known)
	if fault != nil {
		t.Fatal(fault)
	}
	size := found.Size
	found.Size = tokens.Size{}
	want := Request{Model: "org/m", Stream: true, Usage: UsageOptions{Include: true}}
	if !reflect.DeepEqual(found, want) || size.MostAnswer != 14 {
		t.Errorf("got %+v, %+v", found, size)
	}
}

func TestAdaptersBesideTheModelAreRead(t *testing.T) {
	body := `{"model":"flux","prompt":"x","adapter_names":["ada","bob"],"adapter_weights":[0.5,1]}`
	found, fault := ParseRequest("/v1/images/generations", []byte(body), known)
	if fault != nil || !slices.Equal(found.Adapters, []string{"ada", "bob"}) {
		t.Errorf("got %+v, %v", found, fault)
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
		`{"model":"` + strings.Repeat("m", 1<<17) + `"}`:         "invalid_model",
		`{"model":"m","stream":"yes"}`:                           "invalid_type",
		`{"model":"m","adapter_names":"a"}`:                      "invalid_type",
		`{"model":"m","adapter_names":[1]}`:                      "invalid_type",
		`{"adapter_names":[],"model":"m","adapter_names":["b"]}`: "duplicate_key",
		`{"model":"m","max_tokens":-1}`:                          "invalid_type",
		`{"model":"m","max_tokens":1e30}`:                        "invalid_type",
		`{"model":"m","max_tokens":"9"}`:                         "invalid_type",
		`{"model":"m","n":0}`:                                    "invalid_type",
		`{"model":"m","n":9999999}`:                              "invalid_type",
	} {
		_, fault := ParseRequest("/v1/chat/completions", []byte(body), known)
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
		{"application/json; charset=utf8", "", true},
		{"application/json; charset=\"utf-8\"", "", true},
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
	if !bytes.Contains(apierror.Unauthorized().Body(), []byte(`"param":null`)) {
		t.Errorf("got %s", apierror.Unauthorized().Body())
	}
}
