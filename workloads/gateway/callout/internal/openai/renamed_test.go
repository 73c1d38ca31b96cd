package openai

import "testing"

func TestAnotherModelReplacesTheNameAndNothingElse(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"m"}`: `{"model":"small"}`,
		"{ \"messages\":[{\"model\":\"inner\"}], \"m\\u006fdel\" :\n \"m\", \"seed\":12345678901}": "{ \"messages\":[{\"model\":\"inner\"}], \"m\\u006fdel\" :\n \"small\", \"seed\":12345678901}",
	} {
		if got, fault := Renamed([]byte(body), "small"); fault != nil || string(got) != want {
			t.Errorf("%s: got %s, %v", body, got, fault)
		}
	}
	for body, code := range map[string]string{`{"x":{"model":"m"}}`: "invalid_model", `[]`: "invalid_json", `{"model"`: "invalid_json"} {
		if _, fault := Renamed([]byte(body), "small"); fault == nil || fault.Code != code {
			t.Errorf("%s: got %v", body, fault)
		}
	}
}
