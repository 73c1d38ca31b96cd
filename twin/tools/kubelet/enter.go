package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	notFoundCode   = 127
	notAllowedCode = 126
	failedCode     = 128
	folderMode     = 0o755
	temporary      = "/tmp"
	hosts          = "/etc/hosts"
)

var loopback = regexp.MustCompile(`\b127\.0\.0\.1\b`)

// enter becomes a command in the surroundings of a container: `enter FILE FOLDER WORD...`, in namespaces of its own. Its
// root is this machine's, read-only, with the container's mounts, an /etc/hosts whose localhost is the pod, and the
// pod's /tmp.
func enter(arguments []string) int {
	runtime.LockOSThread() // capabilities belong to a thread
	const words = 2
	if len(arguments) <= words {
		fmt.Fprintln(os.Stderr, "you must specify at least one command for the container")
		return failedCode
	}
	given := arguments[words:]
	if err := surround(arguments[0], arguments[1], given); err != nil {
		fmt.Fprintf(os.Stderr, "exec failed: %v\n", err)
		return failedCode
	}
	program, err := exec.LookPath(given[0])
	if err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			fmt.Fprintf(os.Stderr, "exec failed: exec: %q: executable file not found in $PATH\n", given[0])
			return notFoundCode
		}
		fmt.Fprintf(os.Stderr, "exec failed: %v\n", err)
		if errors.Is(err, os.ErrNotExist) {
			return notFoundCode
		}
		return notAllowedCode
	}
	err = unix.Exec(program, given, os.Environ())
	fmt.Fprintf(os.Stderr, "exec failed: exec %s: %v\n", program, err)
	return notAllowedCode
}

// surround makes the container's surroundings, and replaces the loopback address in the command by the pod's.
func surround(file, folder string, words []string) error {
	var inside container
	var of pod
	if err := read(file, &inside); err != nil {
		return err
	}
	if err := read(filepath.Join(folder, "pod.json"), &of); err != nil {
		return err
	}
	mounts, err := ownFiles(folder, &of)
	if err != nil {
		return err
	}
	root := filepath.Join(folder, "enter")
	if err := os.MkdirAll(root, folderMode); err != nil {
		return err
	}
	if err := mountRoot(root, append(mounts, inside.Mounts...)); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(of.Name)); err != nil {
		return fmt.Errorf("hostname: %w", err)
	}
	if err := unix.Chroot(root); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	at := inside.Folder
	if at == "" {
		at = "/"
	}
	if err := os.Chdir(at); err != nil {
		return fmt.Errorf("chdir to cwd (%q) set in config failed: %w", at, err)
	}
	for number, word := range words {
		words[number] = loopback.ReplaceAllString(word, of.Address)
	}
	return dropCapabilities()
}

// ownFiles returns the mounts of the files that a kubelet and a runtime make for every pod.
func ownFiles(folder string, of *pod) ([]mountPoint, error) {
	scratch := filepath.Join(folder, "tmp")
	if err := os.MkdirAll(scratch, folderMode); err != nil {
		return nil, err
	}
	names := filepath.Join(folder, "hosts")
	text := fmt.Sprintf("# Kubernetes-managed hosts file.\n%[1]s\tlocalhost\n%[1]s\t%[2]s\n", of.Address, of.Name)
	if err := os.WriteFile(names, []byte(text), 0o644); err != nil { //nolint:gosec // every user of a pod reads it
		return nil, err
	}
	return []mountPoint{{Path: temporary, Folder: scratch}, {Path: hosts, Folder: names, ReadOnly: true}}, nil
}

// mountRoot makes a tree in the folder: this machine's, read-only, with the mounts in their places.
func mountRoot(root string, mounts []mountPoint) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounts: %w", err)
	}
	for number, each := range mounts {
		mounts[number].Path = resolved(each.Path)
	}
	sort.SliceStable(mounts, func(a, b int) bool { return depth(mounts[a].Path) < depth(mounts[b].Path) })
	if err := unix.Mount("none", root, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mounts: %w", err)
	}
	// unbindable, so that binding the folder above does not copy this tree into itself
	if err := unix.Mount("", root, "", unix.MS_UNBINDABLE, ""); err != nil {
		return fmt.Errorf("mounts: %w", err)
	}
	above := map[string]bool{"/": true}
	at := map[string]bool{}
	for _, each := range mounts {
		at[each.Path] = true
		for dir := filepath.Dir(each.Path); dir != "/"; dir = filepath.Dir(dir) {
			above[dir] = true
		}
	}
	if err := bindAll(root, "/", above, at); err != nil {
		return err
	}
	for _, each := range mounts {
		if err := place(root+each.Path, each.Folder); err != nil {
			return err
		}
	}
	if err := protect(root); err != nil {
		return err
	}
	for _, each := range mounts {
		if err := bindMount(root, each); err != nil {
			return err
		}
	}
	return nil
}

func depth(path string) int { return strings.Count(path, "/") }

// resolved follows the links of this machine on the way to a path, such as /var/run; what is not there stays as it is.
func resolved(path string) string {
	clean := filepath.Clean(path)
	if found, err := filepath.EvalSymlinks(clean); err == nil {
		return found
	}
	if clean == "/" {
		return clean
	}
	return filepath.Join(resolved(filepath.Dir(clean)), filepath.Base(clean))
}

// bindAll shows the entries of a folder of this machine in the tree, except where something else is mounted.
func bindAll(root, folder string, above, at map[string]bool) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return nil // a folder of the container alone, or not ours to see
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(folder, entry.Name())
		switch {
		case at[path] && !above[path]:
		case entry.Type()&os.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err == nil {
				err = os.Symlink(target, root+path)
			}
			if err != nil {
				return err
			}
		case above[path] && entry.IsDir():
			if err := os.MkdirAll(root+path, folderMode); err != nil {
				return err
			}
			if at[path] {
				continue
			}
			if err := bindAll(root, path, above, at); err != nil {
				return err
			}
		default:
			if err := bind(path, root+path); err != nil {
				return err
			}
		}
	}
	return nil
}

func bind(from, to string) error {
	if err := place(to, from); err != nil {
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
			return nil // gone meanwhile, or not ours to see
		}
		return err
	}
	err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, "")
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("mount of %s: %w", from, err) // EINVAL: unbindable
	}
	return nil
}

// place makes the folder, or the empty file, on which something is mounted.
func place(path, for_ string) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	source, err := os.Stat(for_)
	if err != nil {
		return err
	}
	if source.IsDir() {
		return os.MkdirAll(path, folderMode)
	}
	if err := os.MkdirAll(filepath.Dir(path), folderMode); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return file.Close()
}

// bindMount mounts one of the container's folders.
func bindMount(root string, each mountPoint) error {
	from, err := filepath.EvalSymlinks(each.Folder)
	if err != nil {
		return err
	}
	to := root + each.Path
	if err := place(to, from); err != nil {
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount of %s: %w", each.Path, err)
	}
	if each.ReadOnly {
		return protect(to)
	}
	return nil
}

// protect makes a tree of mounts read-only: a command in a container must not change this machine.
func protect(root string) error {
	attributes := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, root, unix.AT_RECURSIVE, &attributes); err != nil {
		return fmt.Errorf("mount of %s read-only: %w", root, err)
	}
	return nil
}

// dropCapabilities leaves none, also for the user 0, so that the command cannot undo the mounts.
func dropCapabilities() error {
	const last = 63
	for each := uintptr(0); each <= last; each++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, each, 0, 0, 0); errors.Is(err, unix.EINVAL) {
			break // beyond the kernel's last one
		} else if err != nil {
			return fmt.Errorf("capabilities: %w", err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}
