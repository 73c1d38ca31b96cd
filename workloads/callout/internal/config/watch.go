package config

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

// File is a configuration that follows changes of its file.
type File struct {
	path    string
	content []byte
	failed  string
	current atomic.Pointer[Config]
}

// Open reads the file for the first time.
func Open(path string) (*File, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	found, err := Parse(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	file := &File{path: path, content: content}
	file.current.Store(found)
	return file, nil
}

// Current returns the newest valid version.
func (f *File) Current() *Config { return f.current.Load() }

// Follow rereads the file until the context ends, and calls changed after each new version. An invalid
// version is logged in one line and ignored; the previous version stays in use.
func (f *File) Follow(ctx context.Context, changed func(*Config)) {
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

func (f *File) reread(changed func(*Config)) {
	content, err := os.ReadFile(f.path)
	if err != nil {
		f.refuse(err)
		return
	}
	if bytes.Equal(content, f.content) {
		return
	}
	f.content = content
	found, err := Parse(content)
	if err != nil {
		f.refuse(err)
		return
	}
	f.failed = ""
	f.current.Store(found)
	slog.Info("configuration loaded", "file", f.path)
	changed(found)
}

func (f *File) refuse(err error) {
	if err.Error() == f.failed {
		return
	}
	f.failed = err.Error()
	slog.Error("configuration refused, the previous version stays in use", "file", f.path, "error", f.failed)
}
