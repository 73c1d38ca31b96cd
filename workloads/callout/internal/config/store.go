package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
)

// Store is a Valkey: the one that replicas count in together, or the one that keeps answers.
type Store struct {
	Address string `json:"address"`
	TLS     bool   `json:"tls"`
	// CA has the certificates, in PEM, that sign the store's own; empty: those of the system.
	CA string `json:"ca"`
}

// TLSConfig returns how to connect to a store; nil is without TLS. field is where the file names it.
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
