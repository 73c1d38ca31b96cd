// Package watch follows the configuration file of a program.
package watch

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

const pollInterval = 500 * time.Millisecond

// File is a configuration of type T that follows changes of its file.
type File[T any] struct {
	path    string
	parse   func([]byte) (*T, error)
	content []byte
	failed  string
	current atomic.Pointer[T]
}

// Open reads the file for the first time.
func Open[T any](path string, parse func([]byte) (*T, error)) (*File[T], error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	found, err := parse(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	file := &File[T]{path: path, parse: parse, content: content}
	file.current.Store(found)
	return file, nil
}

// Current returns the newest valid version.
func (f *File[T]) Current() *T { return f.current.Load() }

// Follow rereads the file until the context ends, and calls changed after each new version. An invalid
// version is logged in one line and ignored; the previous version stays in use.
func (f *File[T]) Follow(ctx context.Context, changed func(*T)) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			f.reread(changed)
		}
	}
}

func (f *File[T]) reread(changed func(*T)) {
	content, err := os.ReadFile(f.path)
	if err != nil {
		f.refuse(err)
		return
	}
	if bytes.Equal(content, f.content) {
		return
	}
	f.content = content
	found, err := f.parse(content)
	if err != nil {
		f.refuse(err)
		return
	}
	f.failed = ""
	f.current.Store(found)
	slog.Info("configuration loaded", "file", f.path)
	changed(found)
}

func (f *File[T]) refuse(err error) {
	if err.Error() == f.failed {
		return
	}
	f.failed = err.Error()
	slog.Error("configuration refused, the previous version stays in use", "file", f.path, "error", f.failed)
}
