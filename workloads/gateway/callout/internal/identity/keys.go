// Package identity identifies callers by API key, JSON Web Token or client certificate, or as anonymous.
package identity

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// KeyPrefix is the prefix of every API key of the platform.
const KeyPrefix = "gki_"

var keyShape = regexp.MustCompile(`^gki_([a-z2-7]{8})_[A-Za-z0-9_-]{43}$`)

type key struct {
	ID      string     `json:"id"`
	Team    string     `json:"team"`
	SHA256  string     `json:"sha256"`
	Created time.Time  `json:"created"`
	Expires *time.Time `json:"expires"`

	digest [sha256.Size]byte
}

// Keys is one version of the document of API keys. It contains only hashes; revoked keys are removed
// from it.
type Keys struct {
	byID map[string]*key
	// saltKey derives the salts of teams; empty in a document that no release with salts wrote.
	saltKey string
}

// ParseKeys reads the document. Its errors name the number of a key, never its content.
func ParseKeys(content []byte) (*Keys, error) {
	var document struct {
		Keys    *[]*key `json:"keys"`
		SaltKey string  `json:"cache_salt_key"`
	}
	if err := json.Unmarshal(content, &document); err != nil {
		return nil, errors.New("the document of keys must be JSON with keys: id, team, sha256, created, expires")
	}
	if document.Keys == nil {
		return nil, errors.New("keys: is required in the document of keys")
	}
	found := &Keys{byID: map[string]*key{}, saltKey: document.SaltKey}
	for number, one := range *document.Keys {
		if one == nil || one.ID == "" || one.Team == "" {
			return nil, fmt.Errorf("keys[%d]: id and team are required", number)
		}
		digest, err := hex.DecodeString(one.SHA256)
		if err != nil || len(digest) != sha256.Size {
			return nil, fmt.Errorf("keys[%d].sha256: must be 64 hexadecimal digits", number)
		}
		if found.byID[one.ID] != nil {
			return nil, fmt.Errorf("keys[%d].id: must be unique", number)
		}
		copy(one.digest[:], digest)
		found.byID[one.ID] = one
	}
	return found, nil
}

// Verify returns the team and the ID of a key, or false. An unknown key takes as long as a wrong one.
func (k *Keys) Verify(credential string, now time.Time) (team, id string, ok bool) {
	digest := sha256.Sum256([]byte(credential))
	var found *key
	if parts := keyShape.FindStringSubmatch(credential); parts != nil {
		found = k.byID[parts[1]]
	}
	wanted := &key{}
	if found != nil {
		wanted = found
	}
	isEqual := subtle.ConstantTimeCompare(digest[:], wanted.digest[:]) == 1
	if !isEqual || found == nil || (found.Expires != nil && !now.Before(*found.Expires)) {
		return "", "", false
	}
	return found.Team, found.ID, true
}
