package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
)

// Store is a Valkey instance: for the shared counters of the replicas, or for cached responses.
type Store struct {
	Address string `json:"address"`
	TLS     bool   `json:"tls"`
	// CA has the certificates, in PEM, that sign the store's certificate. Empty means the system's.
	CA string `json:"ca"`
}

// TLSConfig returns the TLS settings for a store, or nil for a connection without TLS. field is its
// path in the file.
func (s Store) TLSConfig(field string) (*tls.Config, error) {
	if !s.TLS {
		return nil, nil
	}
	made := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CA == "" {
		return made, nil
	}
	made.RootCAs = x509.NewCertPool()
	if !made.RootCAs.AppendCertsFromPEM([]byte(s.CA)) {
		return nil, fmt.Errorf("%s.ca: must have PEM certificates, got none in %d characters", field, len(s.CA))
	}
	return made, nil
}
