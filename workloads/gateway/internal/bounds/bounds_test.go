package bounds

import "testing"

func TestAValueOutOfItsRangeIsRefusedByFieldRuleAndValue(t *testing.T) {
	callout, relay := Of("callout"), Of("relay")
	for _, one := range []struct {
		program        Program
		setting, field string
		value          float64
		want           string
	}{
		{callout, "teams.monthly_usd", "teams.a.monthly_usd", 1e9, ""},
		{callout, "teams.monthly_usd", "teams.a.monthly_usd", 2e9,
			"teams.a.monthly_usd: must be more than 0 and at most 1000000000, got 2000000000"},
		{callout, "teams.monthly_usd", "teams.a.monthly_usd", 0,
			"teams.a.monthly_usd: must be more than 0 and at most 1000000000, got 0"},
		{callout, "guards.timeout_ms", "guards.g.timeout_ms", 9, "guards.g.timeout_ms: must be 10 to 10000, got 9"},
		{relay, "fallback.replicas", "fallback.replicas", -1, "fallback.replicas: must be at least 0, got -1"},
		{relay, "fallback.port", "fallback.port", 65536, "fallback.port: must be 1 to 65535, got 65536"},
	} {
		got := ""
		if err := one.program.Check(one.setting, one.field, one.value); err != nil {
			got = err.Error()
		}
		if got != one.want {
			t.Errorf("%s: got %q", one.field, got)
		}
	}
}
