package identity

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// CacheSalt returns the salt of a team's requests in the prefix caches of engines. It is the same in all
// replicas and regions, which read the same document of keys. given is the client's own salt, which divides
// the team's cache further; it can never result in the salt of another team.
//
// Without a key in a document, as in a stack that knows its clients only by tokens or certificates, it depends
// on a key of this process. A salt that can be calculated from a name protects nothing: whoever guesses it
// can test the prompts of the team (docs.vllm.ai/en/latest/usage/security, prefix caching).
func (v *Verifier) CacheSalt(team, given string) string {
	key := v.saltKey
	if keys := v.secret.Keys(); keys != nil && keys.saltKey != "" {
		key = keys.saltKey
	}
	digest := hmac.New(sha256.New, []byte(key))
	digest.Write([]byte("prefix cache\x00" + team + "\x00" + given)) // no team has a zero byte
	return base64.RawURLEncoding.EncodeToString(digest.Sum(nil))
}

// newSaltKey returns 130 random bits or more.
func newSaltKey() string { return rand.Text() }
