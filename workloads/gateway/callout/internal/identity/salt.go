package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

// CacheSalt returns the salt of a team's requests in the prefix caches of engines. It is the same in all
// replicas and regions, which read the same document of keys. given is the client's own salt, which divides
// the team's cache further; it can never result in the salt of another team.
//
// Without a document, as in a stack that knows its clients only by tokens or certificates, it depends on the
// team alone. Clients still cannot choose it.
func (v *Verifier) CacheSalt(team, given string) string {
	key := ""
	if keys := v.secret.Keys(); keys != nil {
		key = keys.saltKey
	}
	digest := hmac.New(sha256.New, []byte(key))
	digest.Write([]byte("prefix cache\x00" + team + "\x00" + given)) // no team has a zero byte
	return base64.RawURLEncoding.EncodeToString(digest.Sum(nil))
}
