// Package web calls APIs that speak JSON.
package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// StatusError is a response with another status than 200. It contains the address without its query, never a body.
type StatusError struct {
	Method, Address string
	Status          int
}

// Error returns the call and the status.
func (e *StatusError) Error() string {
	return fmt.Sprintf("%s %s: status %d", e.Method, e.Address, e.Status)
}

// Is reports whether an error is a response with a status.
func Is(err error, status int) bool {
	var found *StatusError
	return errors.As(err, &found) && found.Status == status
}

// Request returns a request; with a body, it is written as JSON. The body may be nil.
func Request(ctx context.Context, method, url string, body any) (*http.Request, error) {
	var content io.Reader
	if body != nil {
		written, err := json.Marshal(body)
		if err != nil {
			return nil, errors.New("the body cannot be written as JSON")
		}
		content = bytes.NewReader(written)
	}
	made, err := http.NewRequestWithContext(ctx, method, url, content)
	if err != nil {
		return nil, err
	}
	if body != nil {
		made.Header.Set("Content-Type", "application/json")
	}
	return made, nil
}

// Call reads the JSON response of at most largest bytes into a value. No error quotes a body.
func Call(client *http.Client, request *http.Request, largest int64, into any) error {
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(io.LimitReader(answer.Body, largest))
	if err != nil {
		return err
	}
	address, _, _ := strings.Cut(request.URL.String(), "?")
	if answer.StatusCode != http.StatusOK {
		return &StatusError{request.Method, address, answer.StatusCode}
	}
	if json.Unmarshal(content, into) != nil {
		return fmt.Errorf("%s %s: must return the expected JSON", request.Method, address)
	}
	return nil
}

// Pooled returns a client that keeps connections to one server.
func Pooled(connections int) *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: connections,
		IdleConnTimeout: time.Minute,
	}}
}
