package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// pod is what the node agent writes about a pod.
type pod struct {
	Name    string `json:"name"`
	Address string `json:"address"`

	folder    string
	namespace string
}

// container is what the node agent writes about a container when it starts the container's process.
type container struct {
	Log string `json:"log"`
	// Begin is the size of the log at the start of the process: earlier output is of earlier processes.
	Begin int64 `json:"begin"`
	// Previous is the part of the log that the process before wrote; nil if there was none.
	Previous    *[2]int64         `json:"previous"`
	Environment map[string]string `json:"environment"`
	Mounts      []mountPoint      `json:"mounts"`
	UID         int               `json:"uid"`
	GID         int               `json:"gid"`
	Folder      string            `json:"working_dir"`

	pod     *pod
	name    string
	file    string
	process process
}

type mountPoint struct {
	Path     string `json:"path"`
	Folder   string `json:"folder"`
	ReadOnly bool   `json:"read_only"`
}

type process struct {
	PID     int    `json:"pid"`
	Started string `json:"started"`
}

// node finds pods in the folder of a cluster.
type node struct {
	cluster  string
	commands *commands
}

// find returns a pod by its name. While one of the same name ends, the newer one has the name.
func (n *node) find(namespace, name string) (*pod, error) {
	if !isName(namespace) || !isName(name) {
		return nil, fmt.Errorf("pod %q in namespace %q: not a name", name, namespace)
	}
	files, err := filepath.Glob(filepath.Join(n.cluster, "pods", namespace, "*", "pod.json"))
	if err != nil {
		return nil, err
	}
	var found *pod
	var newest time.Time
	for _, file := range files {
		at, err := os.Stat(file)
		if err != nil {
			continue // it ended meanwhile
		}
		var each pod
		if err := read(file, &each); err == nil && each.Name == name && !at.ModTime().Before(newest) {
			each.folder, each.namespace = filepath.Dir(file), namespace
			found, newest = &each, at.ModTime()
		}
	}
	if found == nil {
		return nil, fmt.Errorf("pod %s/%s has no process on the twin", namespace, name)
	}
	return found, nil
}

// isName tells whether a text can be a name of Kubernetes and so is no path or pattern.
func isName(text string) bool {
	return text != "" && !strings.ContainsAny(text, `/\*?[]`) && !strings.HasPrefix(text, ".")
}

func (n *node) container(namespace, podName, name string) (*container, error) {
	owner, err := n.find(namespace, podName)
	if err != nil {
		return nil, err
	}
	if !isName(name) {
		return nil, fmt.Errorf("container %q: not a name", name)
	}
	out := &container{pod: owner, name: name, file: filepath.Join(owner.folder, name+".container.json")}
	if err := read(out.file, out); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("container %q of pod %s/%s has no process on the twin", name, namespace, podName)
		}
		return nil, err
	}
	// without the file, the process has ended, and a zero process never runs
	_ = read(filepath.Join(owner.folder, name+".process.json"), &out.process)
	return out, nil
}

// runs tells whether the process that the container had when it was found still runs.
func (c *container) runs() bool {
	return c.process.PID != 0 && startOf(c.process.PID) == c.process.Started
}

// startOf returns the kernel's start time of a running process, or an empty text.
func startOf(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	const startField = 19
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) <= startField || fields[0] == "Z" {
		return ""
	}
	return fields[startField]
}

// target returns where a port of a pod listens on this machine.
func (n *node) target(owner *pod, port int32) (string, error) {
	var moved map[string][2]any
	file := filepath.Join(n.cluster, "podports", owner.namespace, owner.Name+".json")
	if err := read(file, &moved); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if at, ok := moved[strconv.Itoa(int(port))]; ok {
		return fmt.Sprintf("%v:%v", at[0], at[1]), nil
	}
	return fmt.Sprintf("%s:%d", owner.Address, port), nil
}

func read(file string, into any) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, into)
}
