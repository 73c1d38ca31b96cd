// Package watch follows the configuration file of a program.
package watch

import (
	"bytes"
	"context"
	"errors"
	"flag"
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

// Flags name the file.
type Flags struct{ path, variable, checked string }

// VariableFlag adds the flag of a variable with the contents, for programs whose platform has no files.
func (f *Flags) VariableFlag(flags *flag.FlagSet, contents string) {
	flags.StringVar(&f.variable, "config-variable", "", "environment variable with the "+contents+", in place of --config")
}

// Flags adds the flags of a file with these contents.
func (f *Flags) Flags(flags *flag.FlagSet, contents string) {
	flags.StringVar(&f.path, "config", "", contents+" (required)")
	flags.StringVar(&f.checked, "check-config", "", "file to check in place of running: it is refused with exit code 2")
}

// Check returns an error if there is no file.
func (f *Flags) Check() error {
	if f.path == "" && f.checked == "" && f.variable == "" {
		return errors.New("--config: is required")
	}
	return nil
}

// IsCheck reports whether the file is only checked.
func (f *Flags) IsCheck() bool { return f.checked != "" }

// Check returns why a program would refuse a file.
func Check[T any](flags Flags, parse func([]byte) (*T, error)) error {
	_, _, err := read("--check-config", flags.checked, parse)
	return err
}

// Open reads the file for the first time.
func Open[T any](flags Flags, parse func([]byte) (*T, error)) (*File[T], error) {
	if flags.variable != "" {
		return ofVariable(flags.variable, parse)
	}
	content, found, err := read("--config", flags.path, parse)
	if err != nil {
		return nil, err
	}
	file := &File[T]{path: flags.path, parse: parse, content: content}
	file.current.Store(found)
	return file, nil
}

// ofVariable reads the configuration of a process, which never changes.
func ofVariable[T any](name string, parse func([]byte) (*T, error)) (*File[T], error) {
	found, err := parse([]byte(os.Getenv(name)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	file := &File[T]{}
	file.current.Store(found)
	return file, nil
}

func read[T any](flag, path string, parse func([]byte) (*T, error)) ([]byte, *T, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", flag, err)
	}
	found, err := parse(content)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return content, found, nil
}

// Current returns the newest valid version.
func (f *File[T]) Current() *T { return f.current.Load() }

// Follow rereads the file until the context ends, and calls changed after each new version. An invalid
// version is logged in one line and ignored; the previous version stays in use.
func (f *File[T]) Follow(ctx context.Context, changed func(*T)) {
	if f.path == "" {
		return
	}
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
