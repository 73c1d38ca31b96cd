package identity

import (
	"regexp"
	"testing"
)

func salted(t *testing.T, document string) *Verifier {
	t.Helper()
	secret := NewSecret("")
	if document != "" {
		keys, err := ParseKeys([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		secret.keys.Store(keys)
	}
	return NewVerifier(secret)
}

func TestASaltIsOfOneTeamAndOneClientSaltAndOneKey(t *testing.T) {
	first := salted(t, `{"keys": [], "cache_salt_key": "one"}`)
	same := salted(t, `{"keys": [], "cache_salt_key": "one"}`)
	other := salted(t, `{"keys": [], "cache_salt_key": "two"}`)
	none := salted(t, "")
	if first.CacheSalt("a", "") != same.CacheSalt("a", "") {
		t.Error("two replicas must have the same salt")
	}
	found := map[string]bool{}
	for _, v := range []*Verifier{first, other, none} {
		for _, team := range []string{"a", "b", "ab"} {
			for _, given := range []string{"", "b", v.CacheSalt("b", "")} {
				salt := v.CacheSalt(team, given)
				if found[salt] || !regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`).MatchString(salt) {
					t.Errorf("%s %s: got %s", team, given, salt)
				}
				found[salt] = true
			}
		}
	}
}

func TestASaltWithoutAKeyInADocumentCannotBeCalculated(t *testing.T) {
	for _, document := range []string{"", `{"keys": []}`} {
		first, second := salted(t, document), salted(t, document)
		if first.CacheSalt("a", "") != first.CacheSalt("a", "") {
			t.Errorf("%q: a replica must keep the salt of a team", document)
		}
		if first.CacheSalt("a", "") == second.CacheSalt("a", "") {
			t.Errorf("%q: two processes must not have the same salt", document)
		}
	}
}
