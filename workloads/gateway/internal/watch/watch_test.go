package watch

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

type settings struct{ region string }

func parse(content []byte) (*settings, error) {
	if len(content) == 0 {
		return nil, errors.New("must not be empty")
	}
	return &settings{region: string(content)}, nil
}

func TestABadVersionOfAFileLeavesTheOldOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	write := func(content string) {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("us-central1")
	file, err := Open(Flags{path: path}, parse)
	if err != nil {
		t.Fatal(err)
	}
	changes := 0
	changed := func(*settings) { changes++ }
	write("")
	file.reread(changed)
	if file.Current().region != "us-central1" || changes != 0 {
		t.Errorf("got %s after a bad version", file.Current().region)
	}
	write("us-east5")
	file.reread(changed)
	file.reread(changed)
	if file.Current().region != "us-east5" || changes != 1 {
		t.Errorf("got %s and %d changes", file.Current().region, changes)
	}
}

func TestAFileIsCheckedWithoutBeingFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := Check(Flags{checked: path}, parse); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v without a file", err)
	}
	for content, want := range map[string]string{"": path + ": must not be empty", "us-central1": ""} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := Check(Flags{checked: path}, parse); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: got %q", content, got)
		}
	}
}
